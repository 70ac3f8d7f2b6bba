// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A guest of any engine, and what all guests share, which jail_host.c opens once. A guest is
 * started in guest_begin.c, by the steps of start_steps.c, and removed in guest_removal.c.
 *
 * Each state has one owner; only the owner may change the state, with guest_move(). A table in
 * guest.c says which events may arrive in a state, and which states may follow it. A guest has one
 * timer, which belongs to the state: a move disarms it.
 *
 *	state		owner		what ends it
 *	waiting		guest_begin.c		what the last life of this id left is gone
 *	starting	guest_begin.c		the agent serves, or the start failed
 *	running		the broker	kill(), or the end of the first process
 *	ended		the broker	kill()
 *	dying		guest_removal.c	first process and worker are reaped
 *	groups		guest_removal.c	its control groups are removed
 *	layer		guest_removal.c	its layer is removed, or on disk
 *	directory	guest_removal.c	its run directory is removed; a second try starts
 *	gone		the loop	the turn: it is freed
 *	foreign		nobody		of another cloche: only counted
 */
#include "base/fd.h"
#include "base/list.h"
#include "engine/engine.h"
#include "engine/guest/spawner.h"
#include "engine/guest/weigh.h"
#include "engine/layer/criu_tmpfs.h"
#include "engine/layer/image.h"
#include "engine/layer/owners.h"
#include "engine/layer/room.h"
#include "engine/layer/storage.h"
#include "engine/linux/cgroup.h"
#include "engine/linux/deferred_close.h"
#include "engine/linux/kernel_share.h"
#include "engine/linux/seccomp.h"
#include "engine/linux/unknown_children.h"
#include "loop/starter.h"

#include <sys/un.h>

#define GUEST_START_US (20 * 1000000U) /* a start takes milliseconds; a loaded host more */
#define GUEST_RETRY_US 500U            /* from the first try of a removal to the next */

enum guest_state {
	GUEST_WAITING,
	GUEST_STARTING,
	GUEST_RUNNING,
	GUEST_ENDED,
	GUEST_DYING,
	GUEST_GROUPS,
	GUEST_LAYER,
	GUEST_DIRECTORY,
	GUEST_GONE,
	GUEST_FOREIGN,
	GUEST_STATE_COUNT
};

enum guest_event {
	GUEST_EXIT,   /* of its first process */
	GUEST_STATUS, /* on status_fd */
	GUEST_TIMER,
	GUEST_WORKER, /* has ended */
};

struct guest_kind;
struct jail;
struct zygotes;

struct guest {
	struct list link; /* in host->guests */
	struct guest_host *host;
	enum guest_state state;
	const struct guest_kind *kind;
	struct guest_spec spec;
	guest_started_fn started; /* these three are taken when they are called: once each */
	guest_ended_fn ended;
	void *arg;
	guest_gone_fn gone;
	void *gone_arg;

	pid_t pid;
	struct loop_child *child;  /* the first process, until it is reaped */
	struct guest *last;        /* the id's last life, whose removal it awaits, or NULL */
	struct loop_child *worker; /* ours, that copies its layer or disks, or removes its layer */
	struct loop_io *status_io;
	struct loop_timer *timer; /* belongs to its state */
	void (*on_time)(struct guest *g);
	uint64_t retry_us;
	int status_fd;
	int dir_fd;          /* RUN/sandboxes/ID */
	int machine_view_fd; /* -1 in a guest that was adopted */
	struct err failure;
	bool is_counted;         /* its final usage was reported */
	unsigned leftovers;      /* how often something could not be removed */
	bool is_discarded;       /* its layer is removed, kept or not */
	bool is_frozen;          /* on request; a snapshot also freezes it for a moment */
	unsigned held_by;        /* bits of enum held_by: frozen for a moment */
	uint64_t lower_until_us; /* its disk limit is lowered by then (disk_snapshot.c); 0: none due
	                          */
	void (*cloned)(struct guest *g, const struct err *err); /* its layer, or why not */
	char place[ID_SIZE];                                    /* where that is made */
	struct start *start;                                    /* that waits for that, or NULL */
	bool is_again;            /* its start failed, and is tried once more */
	struct memory_save *save; /* of its memory, that is under way, or NULL */
	struct revival *revival;  /* of a copy, until it runs, or NULL */
	void *own;                /* of its kind, or NULL */
	/* weigh.c */
	struct owner *owner;  /* NULL: no owner yet */
	uint32_t cpu_weight;  /* of its cgroup; 0: not known */
	uint64_t cpu_ns;      /* that it had used */
	uint64_t cpu_read_us; /* when that was read; 0: never */
	uint64_t cpu_use;     /* up to then, in thousandths of a CPU */
};

/* The jobs of its starter. */
enum host_job { HOST_JOB_NAMESPACE, HOST_JOB_SPAWNER, HOST_JOB_CRIU, HOST_JOB_COUNT };

/* What all guests share. */
struct guest_host {
	struct loop *loop;
	char *data_dir;
	char *sandboxes_dir; /* RUN/sandboxes */
	char *favor_mark;    /* RUN/favordynmods */
	int sandboxes_fd;
	int agent_fd, vmm_fd;
	int template_fd; /* the skeleton of `host`, and the fittings of images */
	int usr_fd;
	int net_fd; /* the host's net namespace, for the way back */
	struct storage storage;
	struct room room;
	struct owners owners;
	struct weigh weigh;
	void (*disk_changed)(const struct host_disk *disk, void *arg);
	void *disk_arg;
	struct images images;
	struct criu_tmpfs criu_tmpfs;
	struct cgroup_host cgroups;
	uint32_t sandboxes_max;
	uint64_t shares[SHARE_COUNT]; /* of one sandbox, of kernel resources */
	struct seccomp_program filter;
	struct starter *starter; /* starts processes without the broker's filter: enum host_job */
	struct spawner spawner;
	struct deferred_close deferred; /* of doors */
	struct unknown_children unknown_children;
	struct zygotes *zygotes; /* the jails' */
	struct list guests;
	void (*const *mains)(struct jail *jail); /* of the spawner's children, by their kind */
	void (*final)(const char *id, const struct guest_usage *usage, void *arg);
	void *final_arg;
};

/*
 * start_steps.c: makes the guest's host objects and lets its child run. The child is then watched
 * as g->child with on_exit, and g->status_fd reports its progress. On failure the caller removes
 * what was made, as for any guest. 1: everything is ready except its layer, or disks in it, which
 * are being copied; guest_go_on() does the rest when they are there.
 */
must_check int guest_launch(struct guest *g, loop_child_fn on_exit,
                            void (*failed)(struct guest *g, const struct err *err),
                            struct err *err);
must_check int guest_go_on(struct guest *g, struct err *err);
void guest_drop_start(struct guest *g); /* a waiting start will not go on */
struct sockaddr_un guest_agent_address(const struct guest *g);
#define GUEST_AGENT_SOCKET "agent.sock" /* in the run directory */

/* guest.c */
struct guest *guest_new(struct guest_host *host, const struct guest_spec *spec,
                        enum guest_state state);
void guest_free(struct loop *loop, void *arg); /* gone, or the broker leaves */
void guest_move(struct guest *g, enum guest_state next);
bool guest_is_removing(const struct guest *g); /* from dying on */
/* Whether the event may arrive in this state. If not, it is logged, and the caller must ignore the
 * event. */
must_check bool guest_expects(const struct guest *g, enum guest_event event);
/* Calls on_time once, unless the state ends first or the timer is armed again. */
void guest_arm(struct guest *g, uint64_t in_us, void (*on_time)(struct guest *g));
/* Its worker has ended. False if nobody waits for the result. */
must_check bool guest_take_worker(struct guest *g);

/* guest_begin.c */
void guest_fail_start(struct guest *g, const struct err *err);
void guest_start_again(struct guest *g); /* when nothing is left of the first try */
/* The copy that its start waits for is ready, or failure says why not. */
void guest_on_cloned(struct guest *g, const struct err *failure);
void guest_on_exit(struct loop *loop, int wait_status, void *arg); /* of its first process */

/* guest_removal.c */
void guest_remove(struct guest *g);                               /* goes on in the background */
void guest_remove_found(struct guest_host *host, const char *id); /* only its id is known */
void guest_proceed_removal(struct guest *g);                      /* what it waited for has come */
/* A guest whose removal nobody waits for: its start failed, or it was found dead. */
struct guest *guest_find_removing(struct guest_host *host, const char *id);

/* Functions of struct engine that serve the guests of all kinds. */
must_check int guest_start(struct guest_host *host, const struct guest_spec *spec,
                           guest_started_fn started, guest_ended_fn ended, void *arg,
                           struct guest **ret, struct err *err);
must_check int guest_adopt(struct guest_host *host, const char *id, guest_ended_fn ended, void *arg,
                           struct guest **ret, struct guest_spec *ret_spec, struct err *err);
must_check int guest_connect(struct guest *g, int *ret_fd, struct err *err);
must_check int guest_read_usage(struct guest *g, struct guest_usage *ret, struct err *err);
void guest_read_shortage(struct guest *g, struct guest_shortage *ret);
must_check int guest_freeze(struct guest *g, bool on, struct err *err);
void guest_kill(struct guest *g, guest_gone_fn gone, void *arg);
must_check int guest_discard(struct guest_host *host, const char *id, guest_gone_fn gone,
                             void *arg);
/* The walls around all guests of this host. The caller fills in engine and grade. */
struct isolation guest_isolation(struct guest_host *host);
