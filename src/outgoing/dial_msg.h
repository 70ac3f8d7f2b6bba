// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Between gateway and dialer: one SOCK_SEQPACKET message each way, the reply with the socket. */
#include <stdint.h>

#define DIAL_HOST_SIZE    256
#define DIAL_MESSAGE_SIZE 160

struct dial_request {
	uint64_t tag;
	uint32_t port;             /* 0: dial nothing, only answer */
	uint32_t is_tenants;       /* a tenant has named it: places of the settings are closed */
	char host[DIAL_HOST_SIZE]; /* a name or an address, without brackets */
};
struct dial_reply {
	uint64_t tag;
	uint32_t is_open;                /* a connected, non-blocking socket comes along */
	char message[DIAL_MESSAGE_SIZE]; /* why not */
};
