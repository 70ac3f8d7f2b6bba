// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of this directory know of a fleet and a sandbox, and nobody else. */
#include "base/list.h"
#include "sandbox/broker_client.h"
#include "sandbox/crash_counters.h"
#include "sandbox/durable.h"
#include "sandbox/exec.h"
#include "sandbox/fleet.h"
#include "sandbox/idempotency.h"
#include "sandbox/link.h"

struct backups;
struct code_call;
struct context;
struct images;
struct port;
struct network;
struct warm_up;
struct template;

#define BOOT_ID_SIZE  40
#define CHANNEL_BLOCK 65536 /* channel numbers that one write of a sandbox's row reserves */

struct fleet {
	struct fleet_config config; /* its strings are not kept, but for those that are borrowed */
	struct broker_client *broker;
	int spool_fd;
	struct crash_counters *crash_counters;
	char boot_id[BOOT_ID_SIZE]; /* of the running kernel: tells a restart of the machine */
	struct msg_reply probe;
	struct host_disk disk;
	bool is_ready, is_draining;
	struct sandbox *by_id, *by_name;
	struct list templates; /* in order of creation */
	struct images *images;
	struct list snapshots; /* in order of creation */
	struct list volumes;   /* likewise */
	struct list takings;   /* snapshots on their way */
	struct list holds;     /* snapshots that are looked at (snapshot_hold.c) */
	struct loop_timer *snapshot_expiry;
	uint64_t warm_not_before_us; /* steady; after a seed that failed */
	struct list all;             /* in order of creation */
	struct list ended;           /* in order of their end */
	struct list untold;          /* of which the broker does not know yet whose they are */
	struct loop_timer *soon;     /* it is told */
	size_t n_alive, n_ended;
	uint64_t ended_bytes; /* of output that is kept of those */
	struct loop_timer *forget;
	struct loop_job *forgetting;        /* of those that are too many or too old */
	struct kept_project *kept_projects; /* kept_output.c, by id */
	uint64_t kept_bytes;                /* of output, of all projects */
	struct idempotency *idempotency;
	struct durable *durable;
	size_t n_creating; /* for a caller who waits */
	struct pool *pool;
	struct fleet_counts counts;
	struct loop_stats broker_turns; /* as last asked */
	size_t n_persistent;            /* of those that are alive or kept */
	loop_fn drained;
	void *drained_arg;
	size_t n_draining;
	size_t message_bytes;      /* of interpreters, on their way in */
	struct loop_timer *look;   /* account.c: who is due for a reading */
	uint64_t synced_us;        /* when usage last was */
	size_t n_meters;           /* ever started */
	struct backups *backups;   /* or NULL: none are made */
	struct adoption *adoption; /* while it starts */
};

/* How the fleet counts it. Kept: a persistent one that does not run. */
enum fleet_place { PLACE_NONE, PLACE_ALIVE, PLACE_KEPT, PLACE_ENDED };

struct sandbox {
	struct fleet *fleet;
	enum fleet_place place;
	char id[ID_SIZE];
	char project_id[ID_SIZE];
	char key_id[ID_SIZE]; /* that it was created with; "" = none */
	char *name;           /* "" = none */
	char *name_key;       /* project and name, while it holds the name */
	enum sandbox_state state;
	bool is_persistent, auto_resumes, ends_with_caller;
	bool is_kept;    /* its layer outlives its end; not once it is deleted */
	bool is_deleted; /* by a call: its execs and their output go too */
	bool is_awaited; /* counts in the fleet's n_creating */
	bool is_undone;  /* a create or resume that failed: told once nothing is left */
	uint64_t resumes;
	json_t *tags, *env;
	char *template;      /* as it was named, or "host" */
	struct digest image; /* of its template; zero = host */
	bool is_shown;       /* as in the spec; of one that lives no longer than this process */
	char shown[SHOWN_MAX][ID_SIZE];           /* likewise */
	struct guest_volume volumes[VOLUMES_MAX]; /* that it has whenever it runs */
	char snapshot_id[ID_SIZE];                /* that it was started from, or "" */
	char warm_copy[ID_SIZE];                  /* instead of booting (warm_copy.c), or "" */
	struct warm_up *warm_up;                  /* of a spare's (warm_up.h), or NULL */
	uint64_t base_bytes;                      /* of that one's files */
	/* pause_to_disk.c */
	char paused_in[ID_SIZE];    /* the snapshot that it is paused in, on disk; or "" */
	enum end_cause pause_cause; /* END_NONE: somebody asked for it */
	bool is_saving;             /* on its way there */
	bool falls_back;            /* to a pause in memory, since it could not be saved */
	bool is_unsaved;            /* it could not: thawed when its link is up again */
	bool wakes_cold;            /* without its memory */
	bool drops_trust;           /* of a copy, until it runs: its files trust another's issuer */
	char rolls_to[ID_SIZE]; /* a snapshot that it is started over next (rollback.c), or "" */
	char *user, *cwd;       /* of its execs by default, as the template says; or NULL */
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
	uint64_t left_us;        /* of its lifetime, while it is paused; CLOCKS_FOREVER = no end */
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
	bool asked_to_keep;    /* that request is a MSG_STOP */
	uint64_t freeze_ask;   /* MSG_FREEZE or MSG_THAW under way */
	struct err create_err; /* why it could not be created, revived or paused */
	struct list callers;   /* struct waiter: for it to run */
	struct list waiters;   /* struct waiter: for its end */
	struct list pausers;   /* struct waiter: for it to be paused */
	json_t *carried; /* of a copy of another's memory: what goes on in it (copied_processes.c);
	                    or NULL */
	uint32_t next_channel, channels_to;
	uint64_t oom_kills, pids_refused; /* as last told */
	struct exec *execs;               /* by id */
	struct list exec_list;            /* in order of creation */
	size_t n_execs;
	struct loop_job *exec_removal; /* end.c: all go with it */
	struct loop_job *exec_trim;    /* ended_retention.c: the oldest go; or NULL */
	/* kept_output.c */
	struct list kept; /* execs that are over and have output, in order of their end */
	uint64_t kept_bytes;
	struct kept_project *kept_project; /* its project's figures; NULL: not looked up */
	struct list contexts;              /* in order of creation */
	size_t n_contexts;
	struct port *ports; /* in the order of their numbers */
	size_t n_ports;
	struct list port_connections;
	size_t n_port_connections;
	/* account.c */
	struct meter *meter;           /* while it is somebody's and runs */
	int calls_counter;             /* how many it has had */
	struct guest_usage base_usage; /* of the time before it was somebody's */
	struct guest_usage last_usage; /* once it is gone */
	bool has_last_usage;
	struct quota_held held;                 /* of its project's and key's quotas */
	unsigned n_limits_due;                  /* changes of limits under way */
	uint64_t reading;                       /* the request for it */
	uint64_t read_next_us, charge_until_us; /* steady; 0 = not known */
	struct guest_usage seen;                /* by the last reading */
	uint64_t seen_us;                       /* wall clock; 0 = none of this run */
	struct samples *samples;                /* readings before it, or NULL */
	struct network *network;                /* NULL: it was never anything but closed */
	json_t *source;                         /* what it was filled with, or NULL */
	json_t *packages;                       /* that it was asked for with, or NULL */
	json_t *notes;                          /* of another face, or NULL */
	struct fetch *fetch;                    /* while it is */
	struct list warm;                       /* contexts that nobody has asked for yet */
	struct spare *spare;                    /* NULL: it is somebody's */
	struct list link_all, link_ended;
	struct list link_untold;               /* in fleet->untold */
	uint32_t told_weight;                  /* of its project, to the broker; 0: none yet */
	uint64_t retained_bytes, forget_at_us; /* once it has ended; steady */
	UT_hash_handle by_id, by_name;
};

struct waiter {
	struct list link;
	sandbox_done_fn fn;
	void *arg;
};

/* engine_choice.c: words of a create, or NULL; bound: it can only be this one, or 0 */
must_check int engine_choose(const struct fleet *fleet, const char *engine, const char *min_grade,
                             uint32_t bound, uint32_t *ret, struct err *err);
/* Of what a vm cannot do yet. */
must_check int engine_refuse_vm(uint32_t engine, const char *what, struct err *err);
const char *engine_name(uint32_t engine); /* sandbox_row.c */

/* create_rules.c: what a client may ask for. Each names the field that is wrong. */
must_check int rules_check(const struct fleet *fleet, const char *project_id,
                           const struct sandbox_spec *spec, struct guest_limits *ret_limits,
                           uint64_t *ret_timeout_ms, struct err *err);
must_check int rules_check_tags(const json_t *tags, struct err *err);
must_check int rules_check_env(const json_t *env, struct err *err);
/* 0 in *asked = what *base has. */
must_check int rules_limits(const struct fleet *fleet, const struct guest_limits *asked,
                            const struct guest_limits *base, struct guest_limits *ret,
                            struct err *err);
must_check int rules_exec_limits(const struct fleet *fleet, const char *project_id,
                                 const char *key_id, const struct exec_limits *asked,
                                 struct err *err);
/* Those that hold: the daemon's where it has none of its own, or higher ones. */
struct exec_limits rules_effective_exec_limits(const struct sandbox *s);
must_check int rules_timeout(const struct fleet *fleet, uint64_t timeout_ms, struct err *err);
must_check int rules_idle_timeout(uint64_t timeout_ms, struct err *err);
must_check int rules_on_timeout(const char *word, bool is_persistent, enum timeout_action *ret,
                                struct err *err);
must_check int rules_on_idle(const char *word, enum timeout_action *ret, struct err *err);
must_check int rules_check_name(const char *name, struct err *err);

/* sandbox_row.c: the sandbox's row. */
must_check int sandbox_save(const struct sandbox *s, struct err *err);
must_check int sandbox_load(struct fleet *fleet, const struct sandbox_row *row,
                            struct sandbox **ret);
const char *grade_name(uint32_t grade);

/* create.c */
/* It cannot succeed any more; its caller is told once everything is undone. */
void create_fail(struct sandbox *s, const struct err *err);
void create_tell(struct sandbox *s, const struct err *err); /* all who wait for it to run */
void create_hostname(const struct sandbox *s, char hostname[64]);
/* One that is nobody's: up to where its owner would be told. */
must_check int create_spare(struct fleet *fleet, const struct template *t,
                            const struct guest_limits *limits, enum engine_kind engine,
                            struct spare *spare, struct sandbox **ret, struct err *err);
void create_await(struct sandbox *s);   /* somebody waits for it to run: create_tell() will come */
void create_unawait(struct sandbox *s); /* but nobody else is to wait for that */
must_check int create_check_room(struct fleet *fleet, struct err *err);
/* It was told of, and has come to nothing: so its end is told with the row that goes. */
void create_take_back(struct sandbox *s, enum end_cause cause);
must_check int create_ask(struct sandbox *s, struct err *err);

/* ended_retention.c: what has ended is remembered for a while. */
void retention_init(struct fleet *fleet);
void retention_done(struct fleet *fleet);
void retention_add(struct sandbox *s);         /* it has ended for good */
void retention_remove(struct sandbox *s);      /* and goes */
void retention_add_exec(const struct exec *e); /* of one that ended before the start */
void retention_remove_exec(const struct exec *e);

/* kept_output.c: how much of execs' output is on disk, and that it is not too much. */
struct kept_project;
void kept_note(struct exec *e);   /* more has come */
void kept_end(struct exec *e);    /* no more comes: it may go for others' sake */
void kept_forget(struct exec *e); /* e goes */
void kept_close(struct fleet *fleet);

/* clocks.c: its two clocks. */
#define CLOCKS_FOREVER INT64_MAX
void clocks_init(struct sandbox *s);
void clocks_done(struct sandbox *s);
void clocks_begin(struct sandbox *s);   /* all of its time lies ahead */
void clocks_rejoin(struct sandbox *s);  /* after a restart: as the row has it */
void clocks_hold(struct sandbox *s);    /* it is paused: the clocks stand still */
void clocks_rest_on(struct sandbox *s); /* after a restart, at rest: what runs on does */
void clocks_go_on(struct sandbox *s);
void clocks_end(struct sandbox *s);
void clocks_update(struct sandbox *s, bool has_new_timeout); /* after a change of its settings */
uint64_t clocks_expires_us(const struct sandbox *s);         /* by the wall clock; 0 = never */
enum timeout_action clocks_on_idle(const struct sandbox *s);

/* wake.c */
void wake_on_ended(struct sandbox *s); /* resumes it if somebody waits for that */
void wake_rejoin(struct sandbox *s);   /* after a restart: freezes or thaws what was under way */
void wake_cancel(struct sandbox *s, const struct err *err); /* it ends: nobody waits any more */
must_check int wake_check_start(struct sandbox *s, struct err *err); /* is there room for it? */
void wake_thaw(struct sandbox *s); /* one that is pausing, and cannot be saved */

/* pause_to_disk.c: to disk and back. */
bool pause_is_on_disk(const struct sandbox *s);
bool sandbox_has_guest(const struct sandbox *s); /* that the broker can be asked about */
void pause_wake(struct sandbox *s);              /* a paused one, for its callers */
void pause_try_again(struct sandbox *s);         /* to put it away */
void pause_on_running(struct sandbox *s);        /* if it was paused on disk */
void pause_on_link(struct sandbox *s);           /* it is up again */
void pause_on_failed(struct sandbox *s, const struct err *err); /* it could not be woken */
void pause_forget(struct sandbox *s); /* it is not, or no more: its snapshot goes */
void pause_adopt(struct sandbox *s, bool is_alive);

/* sandbox.c */
struct sandbox *sandbox_alloc(struct fleet *fleet);
void sandbox_discard(struct sandbox *s); /* out of the fleet, freed at the end of this turn */
void sandbox_forget(struct sandbox *s);  /* the same, and its row */
void sandbox_free(struct sandbox *s);    /* at once, and silently */
void sandbox_free_later(struct sandbox *s);
void sandbox_begin(struct sandbox *s); /* it runs, and its creator is told */
void sandbox_move(struct sandbox *s, enum sandbox_state next);
void sandbox_make_link(struct sandbox *s);
struct share *sandbox_share(const struct sandbox *s); /* its project's; NULL: there are none */
void sandbox_set_share(struct sandbox *s);            /* its project is known */
void sandbox_rejoin(struct sandbox *s);    /* a living one at the start: connects to its agent */
void sandbox_reconnect(struct sandbox *s); /* if its link is down */
bool sandbox_is_alive(const struct sandbox *s); /* not yet stopped or failed */
/* Calls fn from the loop with s or err; fn may be NULL. */
void sandbox_tell(struct fleet *fleet, sandbox_done_fn fn, void *arg, struct sandbox *s,
                  const struct err *err);
void sandbox_note(struct sandbox *s); /* saves what has happened; cannot be refused */
void sandbox_wait(struct list *waiters, sandbox_done_fn fn, void *arg);
/* Each is told s, or err if there is one. */
void sandbox_tell_all(struct sandbox *s, struct list *waiters, const struct err *err);
void sandbox_drop_waiters(struct list *waiters);
/* Its link if calls can be made on it, else NULL and err. */
struct link *sandbox_link(struct sandbox *s, struct err *err);
/* A channel number that was never used in its life. */
must_check int sandbox_take_channel(struct sandbox *s, uint32_t *ret, struct err *err);

/* Its one request to the broker at a time: it replaces one under way. */
must_check int sandbox_ask(struct sandbox *s, enum msg_op op, broker_client_fn fn, struct err *err);

/* end.c */
void end_init(struct sandbox *s);
void end_done(struct sandbox *s);
/* Ends it in any state but an ended one, where it does nothing. detail: figures, or NULL; taken. */
void sandbox_end(struct sandbox *s, enum end_cause cause, json_t *detail, const char *message);
void sandbox_end_again(struct sandbox *s); /* one whose end an earlier gateway had begun */
/* Found dead at the start: nothing of it is left at the broker. */
void sandbox_close_books(struct sandbox *s, enum end_cause cause, json_t *detail,
                         const char *message);
void sandbox_end_orphan(struct sandbox *s); /* its caller was an earlier gateway's */
/* Its files are removed too, though it does not run. */
void sandbox_end_kept(struct sandbox *s);
void sandbox_on_guest_ended(struct sandbox *s, const struct msg_reply *reply);

/* image.c, template.c */
void image_open_all(struct fleet *fleet);
void image_close_all(struct fleet *fleet);
void image_add(struct fleet *fleet, const struct image_info *info); /* the broker has it */
must_check int templates_open(struct fleet *fleet, struct err *err);
void templates_close(struct fleet *fleet);

/* snapshot.c */
struct snapshot;
must_check int snapshots_open(struct fleet *fleet, struct err *err);
void snapshots_close(struct fleet *fleet);
void snapshot_takings_close(struct fleet *fleet);
bool snapshot_saves_memory(const struct sandbox *s); /* one is being taken of it, with memory */
void snapshot_holds_close(struct fleet *fleet);
void snapshot_found(struct fleet *fleet, const struct snapshot_info *info); /* the broker has it */
void snapshots_settle(struct fleet *fleet);                                 /* that was all */
void snapshots_tick(struct fleet *fleet); /* charges their disk up to now */
bool snapshot_is_known(const struct fleet *fleet, const char *id);
size_t snapshot_count_image(const struct fleet *fleet, const struct digest *image);
/* An automatic one that nobody uses goes; id NULL: all of them. */
void snapshot_drop_unused(struct fleet *fleet, const char *id);
/* What a create from it has. */
must_check int snapshot_resolve(const struct fleet *fleet, const char *project_id,
                                const struct sandbox_spec *spec, struct snapshot **ret,
                                struct err *err);
void snapshot_fill_limits(const struct snapshot *sn, struct guest_limits *limits);
must_check int snapshot_check_disk(const struct snapshot *sn, uint64_t disk_bytes, struct err *err);
void snapshot_apply(const struct snapshot *sn, bool with_memory, struct sandbox *s);

/* backup.c */
must_check int backups_open(struct fleet *fleet, struct err *err);
void backups_close(struct fleet *fleet);

/* volume.c */
must_check int volumes_open(struct fleet *fleet, struct err *err);
void volumes_close(struct fleet *fleet);
void volume_found(struct fleet *fleet, const struct volume_info *info); /* the broker has it */
void volumes_settle(struct fleet *fleet);                               /* that was all */
void volumes_tick(struct fleet *fleet); /* charges their disk up to now */
bool volume_is_known(const struct fleet *fleet, const char *id);
/* volume_mounts.c */
void volume_mount_shown(const char *id, struct guest_volume *ret);
bool volume_mounts_are_given(const struct sandbox *s);
bool volume_is_written_by(const struct sandbox *s, const char *id);
json_t *volume_mounts_describe(const struct sandbox *s); /* as a create has them; the caller's */
void volume_mounts_to_row(const struct sandbox *s, struct json_writer *w);
must_check int volume_mounts_from_row(const json_t *rows, struct sandbox *s);
void volume_mounts_to_json(const struct sandbox *s, struct json_writer *w);
/* What a create asks for; then, and whenever it starts again: is each there, and free for it? */
must_check int volume_mounts_read(const struct fleet *fleet, const char *project_id,
                                  const json_t *wishes, uint32_t engine,
                                  struct guest_volume ret[VOLUMES_MAX], struct err *err);
must_check int volume_mounts_check(const struct fleet *fleet, const char *project_id,
                                   const struct guest_volume places[VOLUMES_MAX], struct err *err);

/* rollback.c */
void rollback_on_running(struct sandbox *s);
void rollback_on_failed(struct sandbox *s);

/* fleet.c */
void fleet_attach(struct fleet *fleet, struct sandbox *s);
void fleet_detach(struct fleet *fleet, struct sandbox *s);
void fleet_on_ended(struct fleet *fleet, struct sandbox *s);   /* it became stopped or failed */
void fleet_on_rested(struct fleet *fleet, struct sandbox *s);  /* paused: nothing of it runs */
void fleet_on_revived(struct fleet *fleet, struct sandbox *s); /* a kept one is alive again */
void fleet_rename(struct fleet *fleet, struct sandbox *s, const char *name);

/* owner.c: tells the broker whose a sandbox or a volume is, where that matters */
void owner_open(struct fleet *fleet);
void owner_close(struct fleet *fleet);
/* Of a project; leaves both if it is nobody's. */
void owner_name(const struct share *share, uint64_t *ret_number, uint32_t *ret_weight);
void owner_tell(struct sandbox *s); /* soon */
void owner_look(struct sandbox *s); /* and again, if its project has another weight by now */
void owner_tell_volume(struct fleet *fleet, const char *id, const char *project_id);

void fleet_on_disk(const struct host_disk *disk, void *fleet); /* the broker's word */
/* Of a thing that has a row here: a damaged mark is told, with what belongs into it. */
void fleet_check_keeper(const struct fleet *fleet, const char *file, uint64_t keeper);
void fleet_give_up(struct fleet *fleet); /* there is no broker to work with */
struct sandbox *fleet_find_id(struct fleet *fleet, const char *id);
bool fleet_has_name(struct fleet *fleet, const char *project_id, const char *name);

/* copied_processes.c: what goes on in a copy of a sandbox's memory */
json_t *copied_processes_describe(const struct sandbox *s); /* the caller's */
json_t *copied_processes_describe_warm(
	const struct sandbox *s); /* of a seed: the interpreters in it */
void copied_processes_expect(struct sandbox *s, const json_t *carried); /* before it is recorded */
void copied_processes_rejoin(struct sandbox *s); /* it is there, and its link not up yet */

/* startup_adoption.c: from the store's rows and the broker's list to a fleet that is ready. */
must_check int adoption_start(struct fleet *fleet, loop_fn ready, void *arg, struct err *err);
void adoption_on_rejoined(struct sandbox *s); /* it is up, or given up */
void adoption_free(struct fleet *fleet);

/* sandbox_events.c: what goes into the event log and the counts. */
void emit_created(const struct sandbox *s);
/* A created one that came to nothing. */
void emit_refused(const struct sandbox *s, enum end_cause cause);
void emit_moved(const struct sandbox *s, enum sandbox_state from);
void emit_adopted(const struct sandbox *s);
void emit_changed(const struct sandbox *s, const char *what); /* "settings", "ports", "network" */
void emit_rolled_back(const struct sandbox *s);
void emit_exec_started(const struct exec *e);
void emit_exec_exited(const struct exec *e);
void emit_context_created(const struct context *c);
void emit_context_ended(const struct context *c);
void emit_code_ended(const struct code_call *call);

/* exec_command.c: an exec's spec, checked, as what is sent to the agent. The caller owns what *ret
 * holds.
 */
must_check int exec_command_build(const struct sandbox *s, const struct exec_spec *spec,
                                  const char *id, struct start *ret, struct err *err);

struct exec {
	struct sandbox *sandbox;
	struct loop *loop;
	char id[ID_SIZE];
	enum exec_state state;
	uint32_t number; /* of its channel */
	uint32_t pid;    /* inside; 0 = not known */
	struct channel channel;
	bool is_output_over; /* nothing more comes from the agent */
	bool is_dirty;       /* the row is behind */
	bool is_end_untold;  /* in the event log: it goes there with the row */
	bool is_turn_due;    /* exec_on_turn_end() is coming */
	bool is_removed;     /* watchers are told, then it is freed */
	bool is_dead;        /* freed without a word */
	bool has_lost_output;
	bool is_stdin_ended;
	json_t *argv;             /* or NULL */
	char *shell, *cwd, *user; /* or NULL */
	bool has_stdin, has_pty;
	bool ends_with_caller, is_orphan; /* is_orphan: its caller was an earlier gateway's */
	uint64_t timeout_ms;
	uint64_t created_us, started_us, ended_us;
	struct channel_exit exit; /* how 0: ended without a word from the agent */
	enum end_cause cause;
	struct err *failure; /* of one that never ran */
	bool is_exit_held;   /* exit is in, its cause is being asked for */
	uint64_t usage_tag, oom_kills_before, pids_refused_before;
	json_t *detail;      /* the figures of its cause, or NULL */
	char *why;           /* in words, or NULL */
	struct spool *spool; /* NULL: not opened since the restart; the figures are then: */
	uint64_t stdout_bytes, stderr_bytes, last_seq;
	uint64_t kept_bytes; /* of its output, as counted */
	struct list watches;
	struct list link;
	struct list link_kept, link_kept_project; /* while it is over and has output */
	UT_hash_handle hh;
};

/* exec.c */
struct exec *exec_alloc(struct sandbox *s);
void exec_attach(struct exec *e);        /* to its sandbox */
void exec_rejoin_all(struct sandbox *s); /* puts those that go on onto the sandbox's link */
void exec_end_all(struct sandbox *s);    /* the sandbox ends: what ran has its cause */
void exec_remove_all(struct sandbox *s); /* with spools and rows */
/* The same of some, the oldest first, until so many are left. false: there are no more to go. */
bool exec_remove_some(struct sandbox *s, size_t left);
void exec_free_all(struct sandbox *s); /* from memory only */
void exec_free(struct exec *e);        /* at the end of this turn */
/* It was told of and recorded, and has come to nothing. */
void exec_take_back(struct exec *e, const struct err *why);
extern const struct channel_ops exec_channel_ops;

/* Whether only the broker can tell who killed it. */
bool exit_may_be_oom(const struct channel_exit *x);

/* end_cause.c: why an exec ended, with the figures that decided. */
/* By its exit alone; or, of one that failed, by the broker's counters too. */
enum end_cause end_cause_of_exit(const struct channel_exit *x);
enum end_cause end_cause_by_usage(const struct exec *e, const struct guest_usage *u);
bool end_cause_needs_usage(const struct channel_exit *x);
void end_cause_note_usage(struct sandbox *s,
                          const struct guest_usage *u); /* for those that follow */
/* Sets detail and why of one that has ended; u may be NULL. */
void end_cause_describe(struct exec *e, const struct guest_usage *u);
/* Did the agent end because there was no memory for it? Then what of it, and in words. */
bool end_cause_is_shortage(const struct msg_reply *ended);
json_t *end_cause_describe_shortage(const struct sandbox *s, const struct guest_shortage *short_of,
                                    char *message, size_t size);

/* context.c */
void context_end_all(struct sandbox *s, const struct err *err); /* the sandbox ends */
void context_free_all(struct sandbox *s);                       /* without a word */
void context_rejoin_all(struct sandbox *s); /* puts their interpreters onto the sandbox's link */
struct language;
/* Starts an interpreter that waits for whoever first asks for one like it. */
void context_warm(struct sandbox *s, const struct language *language);
bool context_has_warm(const struct sandbox *s, const struct language *language);
bool context_is_warming(struct sandbox *s); /* some are not ready yet */
void context_cool(struct sandbox *s);       /* ends those that wait */

/* port.c: part of the sandbox's row. */
void port_rows_to_json(const struct sandbox *s, struct json_writer *w);
must_check int port_rows_load(struct sandbox *s, const json_t *rows);
uint64_t port_expires_us(const struct sandbox *s, uint16_t number); /* wall clock; 0 = never */
/* port_connection.c: cuts those to one port, or to all (0); or those that came by a token. */
void port_connection_cut_all(struct sandbox *s, uint16_t number);
void port_connection_cut_visits(struct sandbox *s, uint16_t number);

/* exec_row.c: the exec's row. */
/* With what waits to be told of it, or not at all. */
must_check int exec_save(struct exec *e, struct err *err);
must_check int exec_unsave(struct fleet *fleet, const char *const *ids, size_t n, struct err *err);
must_check int exec_row_json(const struct exec *e, struct buf *out);
must_check int exec_load(struct sandbox *s, const struct exec_row *row);

/* file_call.c: what an errno of the agent means to a client; message is the agent's. */
int guest_error(int errnum, const char *message, struct err *err);
