// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A broker and agents for tests of the sandbox layer, in the same loop as the fleet under test. The
 * agents do what the test tells them, and can be told to do wrong; like real ones they keep their
 * output until it is acknowledged, and live on when the fleet goes away.
 */
#include "base/buf.h"
#include "base/list.h"
#include "broker/msg.h"
#include "proto/frame.h"
#include "proto/start.h"
#include "sandbox/agentlink/link.h"
#include "sandbox/fleet/fleet.h"

enum fake_create { CREATE_WELL, CREATE_REFUSED, CREATE_UNANSWERED, CREATE_HELD };
enum fake_hello {
	HELLO_WELCOME,
	HELLO_SILENT,
	HELLO_GARBAGE,
	HELLO_WRONG_VERSION,
	HELLO_HANG_UP,
	HELLO_LYING_LIST, /* a channel that nobody started */
	HELLO_CUT_LIST,
	HELLO_THEN_DEAF, /* reads nothing more on this connection */
};

struct fake_channel {
	struct list link;
	uint32_t number;
	struct start start;
	struct buf output;          /* all of it, from offset 0 */
	uint8_t streams[64 * 1024]; /* of each byte */
	uint64_t acked, sent;
	struct buf input;
	bool is_input_ended, has_started, has_exit, is_closed, is_forgotten;
	struct channel_exit exit;
	int signals;
	int last_signal, last_scope;
};

struct fake_agent {
	struct list link;
	uint64_t keeper;
	char id[ID_SIZE];
	int fd; /* -1: nobody is connected */
	struct loop_io *io;
	struct buf in;
	uint32_t epoch;
	enum fake_hello hello;
	bool is_deaf;    /* reads nothing */
	bool is_mute;    /* answers no PING */
	unsigned hellos; /* connections that got this far */
	unsigned pings;
	struct list channels;
};

struct fake_broker {
	struct loop *loop;
	struct loop_timer *timer;
	int fd;
	struct loop_io *io;
	enum fake_create create;
	struct msg_request held_create; /* the last one that waits for fake_broker_start_held() */
	enum fake_hello next_hello;     /* of agents made from now on */
	bool refuses_connect, refuses_fork, ignores_fork, holds_deletes, refuses_freeze,
		ignores_freeze, is_frozen;
	uint64_t oom_kills, memory_bytes, pids_refused, disk_bytes; /* as MSG_USAGE tells them */
	uint64_t left_bytes;                                        /* likewise; 0: not told */
	struct guest_limits limits; /* of the last MSG_LIMITS or MSG_CREATE */
	struct list agents;
	unsigned creates, deletes, stops, connects, freezes, forks;
	bool was_resumed; /* the last MSG_CREATE was over a kept layer */
	unsigned n_ahead; /* of the creates: nobody waits for those */
	struct {          /* layers of which no guest lives */
		char id[ID_SIZE];
		uint64_t keeper;
	} kept[4];
	struct image_info images[4]; /* zero: none */
	uint64_t seal_tag;           /* of the seal under way; 0 = none */
	uint64_t seal_keeper;
	unsigned image_removes;
	bool holds_image_removes; /* answers none of them */
	uint64_t held_tag;
	uint32_t held_op;
	char held_id[ID_SIZE];
};

void fake_broker_init(struct fake_broker *b, struct loop *loop);
void fake_broker_done(struct fake_broker *b);
int fake_broker_socket(struct fake_broker *b); /* a fresh one, the fleet's end is returned */
void fake_broker_die(struct fake_broker *b);
void fake_broker_release(struct fake_broker *b); /* answers the delete that it holds */
void fake_broker_start_held(struct fake_broker *b);
void fake_broker_reboot(struct fake_broker *b); /* guests are gone, kept layers not */
size_t fake_kept(const struct fake_broker *b);  /* layers */
void fake_broker_end(struct fake_broker *b, const char *id, int wait_status); /* MSG_ENDED */
/* Tells of the seal under way: its end, or how far it is where image is zero and err NULL. */
void fake_broker_seal(struct fake_broker *b, const struct digest *image, uint64_t bytes,
                      const struct err *err);
struct fake_agent *fake_agent_find(struct fake_broker *b, const char *id);
struct fake_agent *fake_agent_only(struct fake_broker *b);
struct fake_agent *fake_agent_new(struct fake_broker *b, const char *id);

void fake_agent_raw(struct fake_agent *a, const void *data, size_t len);
void fake_agent_send(struct fake_agent *a, enum frame_type type, uint32_t channel,
                     const void *payload, size_t len);
void fake_agent_hang_up(struct fake_agent *a);
struct fake_channel *fake_channel_last(struct fake_agent *a); /* NULL = none */
void fake_started(struct fake_agent *a, struct fake_channel *ch);
void fake_output(struct fake_agent *a, struct fake_channel *ch, enum frame_stream stream,
                 const void *data, size_t len);
void fake_exit(struct fake_agent *a, struct fake_channel *ch, enum exit_how how, uint32_t value);
void fake_closed(struct fake_agent *a, struct fake_channel *ch);
void fake_take_input(struct fake_agent *a, struct fake_channel *ch); /* acknowledges all of it */

/* Turns of the loop until the condition holds; a test that waits in vain fails. */
void fake_turn(struct fake_broker *b);
#define TURNS_MAX 20000
#define UNTIL(broker, condition)                                                                   \
	do {                                                                                       \
		int turns_ = 0;                                                                    \
		while (!(condition) && turns_++ < TURNS_MAX)                                       \
			fake_turn(broker);                                                         \
		CHECK(condition);                                                                  \
	} while (0)
