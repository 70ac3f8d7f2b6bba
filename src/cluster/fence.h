// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The fence, as the fenced node sees it: until when it may act for what others could take over.
 * No clock and no I/O: times are CLOCK_BOOTTIME, given by the caller.
 *
 *	     answered beat           fence_after            lost_after - ending
 *	──┬──────┬───────────────────────┬────────────────────────┬──────────────►
 *	  sent   held                    fenced                   lost
 *
 * A node sends a numbered beat every beat_us. One that the database has stored and answered gives
 * it a right, which lasts fence_after_us from when that beat was *sent*. Others (watch.h) may take
 * over only when they have seen no newer beat for fence_after_us + margin_us, counted from after it
 * was stored. A beat is sent before it is stored, and stored before it is seen. So the right has
 * ended when another node may act. margin_us allows for clocks that run at different speeds, and
 * for the time that it takes to stop.
 *
 * No wall clock decides anything. Where this node's wall clock and steady clock part, the machine
 * was stopped by its host and the steady clock may have stood still: the right is
 * gone until a beat that was sent afterwards is answered.
 *
 * Each join has a new epoch. A takeover raises the epoch in the database, so that beats of the old
 * one are refused: the node stands still until it has joined anew and knows what it owns no more.
 */
#include <stdbool.h>
#include <stdint.h>

struct fence_rules {
	uint64_t beat_us;
	uint64_t fence_after_us;
	uint64_t lost_after_us;
	uint64_t margin_us;
	uint64_t ending_us;     /* what a lost node needs to end its sandboxes */
	uint64_t clock_jump_us; /* how far wall and steady clock may part between two looks */
};
extern const struct fence_rules fence_usual;

enum fence_state {
	FENCE_OUT,    /* not joined, or its epoch is over: must join */
	FENCE_HELD,   /* has the right */
	FENCE_FENCED, /* has it no more; may get it back */
	FENCE_LOST,   /* others believe it dead: ends all that runs */
};

/* What a node may be asked to do. */
enum fence_act {
	FENCE_SERVE,    /* calls, streams, egress, unnamed creates within the quota that it holds */
	FENCE_AGREE,    /* names, idempotency keys, more quota, keys, templates */
	FENCE_EXCLUSIVE /* running what another node would restore (`on_node_loss: "restore"`) */
};

struct fence {
	uint64_t epoch;
	uint64_t number;         /* of the newest beat or join that was sent */
	uint64_t number_sent_us; /* when */
	uint64_t right_us;       /* when the last one was sent that was answered */
	bool is_open;            /* the newest is not answered yet */
	bool is_in;              /* joined, and the epoch holds */
	bool has_right;          /* false from a parting of the clocks until the next answer */
	bool was_in;             /* right_us counts for lost_after_us */
	bool has_clocks;
	int64_t clock_gap_us; /* wall minus steady, at the last look */
};

/* A beat or join is about to be sent: its number, never used twice. Of each one is under way: an
 * older one's answer no longer counts. */
uint64_t fence_send(struct fence *f, uint64_t now_us);
/* The database has stored it. False: it is not the newest. */
bool fence_answered(struct fence *f, uint64_t number);
/* The join has been answered, likewise; what is not owned any more has to be dealt with first. */
bool fence_joined(struct fence *f, uint64_t number, uint64_t epoch);
void fence_refused(struct fence *f); /* the epoch of a beat was an old one */
/* To be called at least before each beat, and before a fenced node goes on. */
void fence_look(struct fence *f, const struct fence_rules *rules, uint64_t steady_us,
                uint64_t wall_us);

enum fence_state fence_state(const struct fence *f, const struct fence_rules *rules,
                             uint64_t now_us);
bool fence_allows(enum fence_state state, enum fence_act act);
/* When it ends what it runs, if no further beat is answered. */
uint64_t fence_lost_us(const struct fence *f, const struct fence_rules *rules);
/* When the state may change by time alone: for a timer. UINT64_MAX: never. */
uint64_t fence_until(const struct fence *f, const struct fence_rules *rules, uint64_t now_us);
