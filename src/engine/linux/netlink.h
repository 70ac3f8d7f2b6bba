// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Netlink messages to the kernel: written one after the other into a buffer of fixed size, sent
 * together and answered together. Messages are our own; only numbers in them ever come from
 * outside.
 */
#include "base/err.h"

#include <libmnl/libmnl.h>

#define NETLINK_TALK_MAX 16384

struct netlink_talk { /* zeroes: nothing said yet */
	size_t len;
	uint32_t seq;          /* of the last message */
	uint32_t answered_seq; /* of the one whose answer ends the talk */
	struct nlmsghdr *open; /* the one that attributes are put into */
	_Alignas(NLMSG_ALIGNTO) char bytes[NETLINK_TALK_MAX];
};

/* Begins the next message: attributes are added with mnl_attr_put() and the like until the next
 * call. Its own header, extra_len zero bytes after the common one, is at *ret_extra. */
struct nlmsghdr *netlink_message(struct netlink_talk *talk, uint16_t type, uint16_t flags,
                                 size_t extra_len, void **ret_extra);
/* The open message is the last one that the kernel must answer; errors come unasked. */
void netlink_want_answer(struct netlink_talk *talk);
/* Sends all of them in this thread's net namespace. 0, or the first error. */
must_check int netlink_send(struct netlink_talk *talk, int protocol);
/* The same, and *ret_fd is the socket, which the caller then owns, also on failure; -1 if there is
 * none. */
must_check int netlink_send_by(struct netlink_talk *talk, int protocol, int *ret_fd);
