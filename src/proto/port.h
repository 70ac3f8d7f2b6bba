// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The protocol on a vm's virtio-serial port: records, both ways. The port is one stream of bytes as
 * long as the machine runs, however often the host's daemon restarts.
 *
 *	u32 connection | u32 length | so many bytes
 *
 * Connection 0 is between the host's cloche-vmm and the agent as init: a kind and its payload
 * (enum port_kind). Any other is one connection to the agent, in the agent protocol (frame.h). The
 * host numbers connections upwards: the first record with a higher number opens that connection and
 * ends the one before; a record without bytes ends its connection. Records of older connections are
 * dropped. Each side writes whole records and does not trust what it reads.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define PORT_NAME      "cloche.agent" /* of the port, in /sys/class/virtio-ports */
#define PORT_HEAD_SIZE 8
#define PORT_DATA_MAX  65536      /* bytes in a record */
#define PORT_TEXT_MAX  4096       /* bytes in a control record */
#define PORT_TEMPLATE  "template" /* serial numbers of the disks */
#define PORT_FITTINGS  "fittings"
#define PORT_SCRATCH   "scratch"
#define PORT_SHOWN     "shown" /* and a digit: of snapshots that this machine looks into */
#define PORT_SHOWN_MAX 3
#define PORT_SHOWN_OPTION                                                                          \
	"cloche.shown=" /* on the kernel's command line: how many there are; absent: none */

#define PORT_BASE      "base" /* and a digit: of the images that the template's needs */
#define PORT_BASES_MAX 8
#define PORT_BASES_OPTION                                                                          \
	"cloche.bases=" /* on the kernel's command line: how many there are; absent: none */

enum port_kind {
	/* agent to host */
	PORT_HERE = 1, /* the root is put together; waits for SETUP */
	PORT_READY,    /* SETUP is done; connections are served */
	PORT_FAILED,   /* text: why it cannot go on; powers off */
	PORT_QUIESCED, /* all is written, nothing runs; says nothing more until GO_ON or SETUP */
	PORT_USED,     /* struct port_usage as text */
	/* host to agent */
	PORT_SETUP = 17, /* struct port_setup as text; also after each restore */
	PORT_QUIESCE,
	PORT_POWEROFF,
	PORT_USAGE,
	PORT_GO_ON, /* after QUIESCE, to the machine that was copied; a copy gets SETUP */
};

struct port_record {
	uint32_t connection;
	const char *data; /* borrowed from the buf until port_consume() */
	size_t len;
};

/* Writes data of any length in as many records as needed; none if len is 0. -E2BIG if out is full;
 * it is then unchanged. */
must_check int port_put(struct buf *out, uint32_t connection, const void *data, size_t len);
must_check int port_put_end(struct buf *out, uint32_t connection);
must_check int port_put_control(struct buf *out, enum port_kind kind, const void *text, size_t len);
/* 1 and *ret when a whole record is at the front of in, 0 when more bytes are needed, -EPROTO. */
must_check int port_get(const struct buf *in, struct port_record *ret);
void port_consume(struct buf *in, const struct port_record *r);

struct port_address { /* an end of the link to the host */
	uint8_t bytes[16];
	bool is_set;
};

/* What the host tells a machine before any user code runs in it, and after each restore. */
struct port_setup {
	char hostname[65];      /* "": as it was */
	uint8_t machine_id[16]; /* has_machine_id */
	uint8_t seed[32];       /* has_seed: for the kernel's generator */
	bool has_machine_id, has_seed;
	uint64_t clock_us;   /* since 1970; 0: as it is */
	uint64_t open_files; /* 0: unchanged, also in the next two */
	uint64_t pids;
	uint64_t memory_bytes; /* of all execs together */
	uint64_t caps;         /* of root's execs; has_caps, else all */
	bool has_caps;
	struct port_address ip4, gateway4, ip6, gateway6; /* of the one network card */
};

/* Lines of `key=value`, in any order. Unknown keys are ignored, so either side may be the newer
 * one. */
must_check int port_setup_print(const struct port_setup *s, struct buf *out);
must_check int port_setup_parse(const char *text, size_t len, struct port_setup *ret,
                                struct err *err);

struct port_usage { /* of all execs together */
	uint64_t oom_kills, pids_refused;
	uint64_t memory_bytes, memory_peak_bytes, pids;
	uint64_t disk_bytes, disk_total_bytes, inodes;
};
must_check int port_usage_print(const struct port_usage *u, struct buf *out);
must_check int port_usage_parse(const char *text, size_t len, struct port_usage *ret,
                                struct err *err);
