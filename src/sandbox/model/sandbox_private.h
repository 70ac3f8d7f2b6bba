// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to src/sandbox: the members of a sandbox. */
#include "sandbox/agentlink/link.h"
#include "sandbox/model/fleet_state.h"
#include "sandbox/model/phase.h"

struct account;
struct context;
struct exec;
struct fetch;
struct group;
struct life_step;
struct network;
struct port;
struct span;
struct template;
struct warm_up;

#define CHANNEL_BLOCK 65536 /* channel numbers that one write of a sandbox's row reserves */

/* How the fleet counts it. Kept: a persistent sandbox that does not run. */
enum fleet_place { PLACE_NONE, PLACE_ALIVE, PLACE_KEPT, PLACE_ENDED };

struct sandbox {
	struct fleet *fleet;
	enum fleet_place place;
	char id[ID_SIZE];
	char project_id[ID_SIZE];
	char key_id[ID_SIZE]; /* that it was created with; "" = none */
	char *name;           /* "" = none */
	char *name_key;       /* project and name, while it holds the name */
	/* group.c */
	char *group, *alias;    /* the group's name and its host name there, or NULL */
	uint32_t group_number;  /* among its members: never another's while it is one */
	struct group *in_group; /* NULL: in none, or not any more */
	struct list link_group;
	enum sandbox_phase phase;
	enum sandbox_state state;     /* that the phase belongs to */
	const struct life_step *step; /* of its create or end, the last that began */
	sandbox_made_fn on_made;      /* of its create, until it is called; or NULL */
	void *made_arg;
	bool is_persistent, auto_resumes, ends_with_caller;
	bool is_kept;    /* its layer outlives its end; not once it is deleted */
	bool is_deleted; /* by a call: its execs and their output are removed too */
	bool is_awaited; /* counts in the fleet's n_creating */
	uint64_t resumes;
	json_t *tags, *env;
	char *template;      /* as it was named, or "host" */
	struct digest image; /* of its template; zero = host */
	bool is_shown; /* these two as in the spec; only in sandboxes that end with this process */
	bool is_writable;
	char shown[SHOWN_MAX][ID_SIZE];           /* likewise */
	struct guest_volume volumes[VOLUMES_MAX]; /* mounted whenever it runs */
	char snapshot_id[ID_SIZE];                /* that it was started from, or "" */
	char warm_copy[ID_SIZE];                  /* instead of booting (warm_copy.c), or "" */
	struct warm_up *warm_up;                  /* of a spare's (warm_up.h), or NULL */
	uint64_t base_bytes;                      /* of that one's files */
	/* pause_to_disk.c */
	char paused_in[ID_SIZE];    /* the snapshot that it is paused in, on disk; or "" */
	enum end_cause pause_cause; /* END_NONE: somebody asked for it */
	bool falls_back;            /* to a pause in memory, if it cannot be saved */
	bool drops_trust;           /* of a copy, until it runs: its files trust another's issuer */
	char rolls_to[ID_SIZE];     /* the snapshot for its next start (rollback.c), or "" */
	enum on_node_loss on_node_loss;
	struct {               /* restorable.c: where it outlives its node */
		bool is_asked; /* the cluster may have a row of it */
		uint64_t term;
		char generation[ID_SIZE]; /* the newest durable one; or "" */
		uint64_t generation_us;   /* wall clock: when it was taken */
		uint64_t rest; /* resumes + 1: nothing has run since then; else another number */
		char origin[ID_SIZE];        /* a generation for its next start; or "" */
		char restored_from[ID_SIZE]; /* when it was taken over last; or "" */
		uint64_t lost_ms, restored_us;
		/* not in its row */
		bool is_closed;   /* calls are refused: another node may run it */
		bool is_told;     /* by an event */
		bool is_still;    /* it is frozen for that, perhaps in part */
		bool is_fetching; /* its origin is being brought */
		bool is_disowning, is_leaving;
		uint64_t changes; /* of its settings */
		uint64_t ask;     /* MSG_FREEZE or MSG_THAW under way */
		struct loop_timer *again;
	} outlive;
	char *user, *cwd; /* of its execs by default, as the template says; or NULL */
	struct guest_limits limits;
	struct exec_limits exec_limits;
	uint64_t created_us;
	uint32_t engine;            /* that was chosen for it */
	struct isolation isolation; /* engine 0: not known yet */
	struct {                    /* of its last life */
		enum end_cause cause;
		json_t *detail; /* object of figures, or NULL */
		char message[200];
		uint64_t at_us;
	} end;
	/* clocks.c */
	uint64_t timeout_ms, idle_timeout_ms; /* 0 = none */
	enum timeout_action on_timeout;
	enum timeout_action on_idle; /* ON_TIMEOUT_COUNT: as on_timeout */
	uint64_t deadline_us;        /* steady; 0 = none */
	uint64_t left_us; /* of its lifetime, while it is paused or made; CLOCKS_FOREVER = no end */
	bool counts_paused;      /* its lifetime runs on then */
	uint64_t rests_until_us; /* by the wall clock: its end, while it does so; else 0 */
	uint64_t active_us;      /* steady: the last activity that was seen */
	struct loop_timer *lifetime, *idle;
	struct link *link;
	bool is_rejoining;
	struct loop_timer *timer; /* while stopping: asks the broker again */
	struct loop_timer *reconnect;
	unsigned reconnects;
	uint64_t reconnects_since_us;
	uint64_t ask;          /* the request that its life waits for */
	uint64_t freeze_ask;   /* MSG_FREEZE or MSG_THAW under way */
	struct err create_err; /* why it could not be created, revived or paused */
	struct list callers;   /* sandbox_wait(): for it to run */
	struct list waiters;   /* likewise, for its end */
	struct list pausers;   /* likewise, for it to be paused */
	json_t *carried; /* of a copy of another's memory: its processes (copied_processes.c); or
	                    NULL */
	uint32_t next_channel, channels_to;
	void (*on_disturbed)(void *arg); /* what runs in it may change from here on; or NULL */
	void *disturbed_arg;
	uint64_t oom_kills, pids_refused; /* as last told */
	struct exec *execs;               /* by id */
	struct list exec_list;            /* in order of creation */
	size_t n_execs;
	struct loop_job *exec_removal; /* end.c: all go with it */
	struct loop_job *exec_trim;    /* ended_retention.c: the oldest go; or NULL */
	/* kept_output.c */
	struct list kept; /* execs that are over and have output, in order of their end */
	uint64_t kept_bytes;
	/* lifecycle/results.h */
	json_t *results;               /* paths of files that are kept when it has ended, or NULL */
	json_t *result_files;          /* what was kept of each, or NULL */
	uint64_t result_bytes;         /* of them together */
	enum sandbox_phase ended_from; /* the phase in which its end began */
	struct collection *collection; /* while they are read; or NULL */
	struct kept_project *kept_project; /* its project's figures; NULL: not looked up */
	struct list contexts;              /* in order of creation */
	size_t n_contexts;
	struct port *ports; /* in the order of their numbers */
	size_t n_ports;
	struct list port_connections;
	size_t n_port_connections;
	struct account *account;     /* usage/account.h */
	struct network *network;     /* NULL: it was never anything but closed */
	json_t *source;              /* its source, or NULL */
	json_t *packages;            /* that were asked for, or NULL */
	json_t *notes;               /* of another face, or NULL */
	struct fetch *fetch;         /* while it is */
	struct file_call *directory; /* while its working directory is made */
	struct span *span;           /* of its create or resume, while that is traced; else NULL */
	struct list warm;            /* contexts that nobody has asked for yet */
	struct spare *spare;         /* NULL: it has an owner */
	struct list link_all, link_ended;
	struct list link_untold;               /* in fleet->untold */
	uint32_t told_weight;                  /* of its project, to the broker; 0: none yet */
	uint64_t retained_bytes, forget_at_us; /* once it has ended; steady */
	UT_hash_handle by_id, by_name;
};

/* names.c */
const char *grade_name(uint32_t grade);

/* sandbox.c */
bool pause_is_on_disk(const struct sandbox *s);
bool sandbox_has_guest(const struct sandbox *s);      /* that the broker can be asked about */
struct share *sandbox_share(const struct sandbox *s); /* its project's; NULL: there are none */
bool sandbox_is_alive(const struct sandbox *s);       /* not yet stopped or failed */
/* Calls fn from the loop with s or err; fn may be NULL. */
void sandbox_tell(struct fleet *fleet, sandbox_done_fn fn, void *arg, struct sandbox *s,
                  const struct err *err);
void sandbox_wait(struct list *waiters, sandbox_done_fn fn, void *arg);
/* Calls each waiter with s, or with err if there is one. */
void sandbox_tell_all(struct sandbox *s, struct list *waiters, const struct err *err);
void sandbox_drop_waiters(struct list *waiters);
/* Its link if calls can be made on it, else NULL and err. */
struct link *sandbox_link(struct sandbox *s, struct err *err);
/* A channel number that was never used in its life. */
must_check int sandbox_take_channel(struct sandbox *s, uint32_t *ret, struct err *err);
/* Something is about to run in it, or it changes its state: tells who relies on its being idle,
 * once. */
void sandbox_disturb(struct sandbox *s);
/* Sends its request to the broker; it has one at a time, and a new one replaces it. */
must_check int sandbox_ask(struct sandbox *s, enum msg_op op, broker_client_fn fn, struct err *err);
/* Fills err with why a sandbox that has ended accepts no calls. */
/* Whether its files are there, to be copied. */
int sandbox_check_files(const struct sandbox *s, struct err *err);
int sandbox_has_ended(const struct sandbox *s, struct err *err);
