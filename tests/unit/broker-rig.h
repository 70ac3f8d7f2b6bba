// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A broker with a fake engine; the test is the gateway. */
#include "broker/broker_private.h"
#include "broker/msg.h"
#include "fake-engine.h"
#include "test.h"

extern struct broker_rig {
	struct loop *loop;
	struct broker *broker;
	int gateway_fd;
	bool is_over;     /* the broker has said so */
	char run_dir[64]; /* which a test may fill before rig_begin_with() */
} rig;
extern const struct guest_limits rig_most; /* that a sandbox may have */

void rig_begin(void); /* with room for four, and nothing left of earlier ones */
void rig_begin_with(uint32_t sandboxes_max);
void rig_end(void);
void rig_turn(void); /* of the loop */

void rig_make_id(char id[ID_SIZE]); /* of a sandbox */
struct msg_request rig_request(uint32_t op, const char *id);
struct msg_request rig_create(const char *id);
void rig_send(const struct msg_request *req);
/* The next reply, or false if none comes. The fds are the caller's. */
bool rig_next_fds(struct msg_reply *reply, int *fds, size_t *n_fds);
bool rig_next(struct msg_reply *reply, int *ret_fd);
/* Of the next reply, which must be to this. */
int rig_next_code(uint32_t op);
struct msg_reply rig_ask(const struct msg_request *req);
int rig_ask_code(const struct msg_request *req);
