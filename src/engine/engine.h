// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What an engine must do. Runs in the broker, on its loop, and the rest of cloche knows no more
 * than this. An engine owns every host object of its guests (processes, mounts, cgroups, layers,
 * sockets) and removes them all in kill(), in any state, also for a guest that it adopted from an
 * earlier broker's record.
 *
 * The engines are the rows of engines[] (engines.c). Nobody outside asks which one a guest has: its
 * traits and the calls that it has say what can be done with it.
 */
#include "base/digest.h"
#include "base/err.h"
#include "base/id.h"
#include "engine/limits.h"
#include "loop/loop.h"

#include <stdbool.h>

struct guest;       /* one running sandbox, opaque */
struct guest_host;  /* what an engine's guests share, opaque: its own, by probe() */
struct guest_kind;  /* engine/guest/guest_kind.h */
struct image_build; /* an image in the making, opaque */

#define SHOWN_MAX 3 /* snapshots */

#define VOLUMES_MAX      4   /* of a guest */
#define VOLUME_PATH_SIZE 128 /* of the place where one is put, with its NUL */

/* A volume in a guest: files that are there before it and stay behind it. */
struct guest_volume {
	char id[ID_SIZE];            /* of kind "vo"; "": none, and none behind it */
	char path[VOLUME_PATH_SIZE]; /* as volume_check_path() has it */
	uint32_t is_read_only;
	uint32_t reserved;
};
/* NULL, or why a volume cannot lie there. The names are those inside. */
const char *volume_check_path(const char *path);
/* Whether one of two paths lies in the other, or they are the same. */
bool volume_paths_overlap(const char *a, const char *b);

struct volume_spec {
	char id[ID_SIZE];
	uint64_t keeper; /* whoever knows of it, as of a guest's layer; never 0 */
	uint64_t bytes;  /* that its files and their names may take */
};

struct volume_info {
	char id[ID_SIZE];
	uint64_t keeper; /* UINT64_MAX where it cannot be told, which is no store's number */
	uint64_t used_bytes;
};

/* What a guest that comes from a snapshot goes on with. */
enum guest_memory {
	MEMORY_NONE, /* its files alone */
	MEMORY_COPY, /* its processes too, of one that has them */
	MEMORY_WARM, /* a vm's: as MEMORY_COPY, and only with the kernel that is in use now */
};

struct guest_spec {
	char id[ID_SIZE];
	char hostname[64];
	uint32_t slot;       /* picked by the broker: names the uid range */
	uint32_t is_resumed; /* 1: starts over the layer that was kept under its id */
	uint32_t is_shown; /* 1: it is a sandbox of "host", and the image its directory /template */
	uint32_t engine;   /* its number */
	uint32_t is_kvm;   /* a vm's, set by its engine */
	uint32_t with_memory; /* of enum guest_memory */
	struct digest image;  /* of its template; zero = "host", which has none */
	struct guest_limits limits;
	/* 0: its layer goes with it. Else the layer bears this number of whoever knows it, and
	 * stays when the guest ends, until discard(). */
	uint64_t keeper;
	/* "": from its template. Else a snapshot's id: it goes on from a copy of that. With
	 * is_resumed the copy takes the place of the layer that was kept, in one step. */
	char snapshot[ID_SIZE];
	/* Snapshots over one template, "host" or the image that is shown, of a vm its own: it finds
	 * their roots in /shown (see jail/rootfs.c), read-only. They are of its engine. "": none.
	 */
	char shown[SHOWN_MAX][ID_SIZE];
	struct guest_volume volumes[VOLUMES_MAX]; /* the first ones */
};

/* What is taken of a guest, or of the layer that was kept under its id. */
struct snapshot_spec {
	char id[ID_SIZE];    /* of kind "sn" */
	uint64_t keeper;     /* whoever knows of it, as of a guest's layer; never 0 */
	uint32_t has_memory; /* 1: its processes too */
	uint32_t is_brief;   /* 1: it need not outlive a crash of the host */
	/* With memory: 1: a TCP connection that is open is closed in the copy, 0: it is refused. */
	uint32_t closes_connections;
	/* With memory: 1: the guest does not go on. From when it was told of on it stands still,
	 * until kill(), or until freeze() lets it go on after all. */
	uint32_t is_last;
};

struct snapshot_info {
	char id[ID_SIZE], source[ID_SIZE];
	uint64_t keeper;
	/* Counts the layers that its source has had, by rollbacks: those of one line share what the
	 * source wrote. 0: its first. */
	uint64_t line;
	uint64_t bytes; /* of files: all that it refers to, shared or not */
	/* What its source had written by then and is still there: what an earlier snapshot of the
	 * same source has of that is the same bytes on disk. */
	uint64_t written_bytes;
	uint64_t memory_bytes; /* 0: it has none */
	struct digest image;   /* of the template below the files */
	uint32_t is_unshared;  /* 1: this host cannot count bytes once; written_bytes are all */
	uint32_t reserved;
};

struct image_build_spec {       /* how a sandbox's root becomes an image */
	uint64_t epoch_s;       /* no file in it is younger */
	uint64_t bytes_max;     /* of the image */
	uint64_t keeper;        /* whoever knows of it, as of a guest's layer */
	uint32_t is_tree;       /* 1: the directory /template of the sandbox, not its root */
	uint32_t is_small;      /* 1: takes its time and becomes smaller */
	char snapshot[ID_SIZE]; /* of its files as they were saved there; "": as they are now */
};

struct image_build_result {
	struct digest image; /* zero: not yet, bytes are how far it has come */
	uint64_t bytes;
};

struct image_info {
	struct digest digest;
	uint64_t bytes;
	uint64_t keeper; /* UINT64_MAX where it cannot be told, which is no store's number */
};

struct guest_usage {
	uint64_t cpu_ns, memory_bytes, memory_peak_bytes;
	uint64_t disk_bytes; /* what is its own: snapshots are charged for what they have of it */
	uint64_t pids, oom_kills;
	uint64_t pids_refused; /* processes that the limit did not let begin */
	uint64_t files_bytes;  /* all that it wrote or was started from, with what snapshots have */
};

/* Of memory, in the group of the guest's first process, which no limit of the guest's reaches. */
struct guest_shortage {
	uint64_t oom_kills; /* of that process; 0: it had enough */
	uint64_t limit_bytes, peak_bytes;
};

/* Which walls stand, and which do not though they should: bits, named by wall_name(). */
enum wall {
	WALL_USER_NS,
	WALL_PID_NS,
	WALL_MOUNT_NS,
	WALL_NET_NS,
	WALL_IPC_NS,
	WALL_UTS_NS,
	WALL_CGROUP_NS,
	WALL_UID_RANGE,
	WALL_PIVOT_ROOT,
	WALL_CAPABILITIES,
	WALL_NO_NEW_PRIVS,
	WALL_SECCOMP,
	WALL_MASKED_PROC,
	WALL_MEMORY_LIMIT,
	WALL_CPU_LIMIT,
	WALL_PIDS_LIMIT,
	WALL_DISK_LIMIT,
	WALL_INODE_LIMIT,
	WALL_NET_LINKLESS,
	WALL_OWN_KERNEL,
	WALL_HARDWARE,
	/* No wall, and only ever a gap: the memory of this engine's guests cannot be saved here. */
	WALL_MEMORY_SNAPSHOTS,
	WALL_COUNT,
};
const char *wall_name(enum wall wall); /* "user_namespace", … */

/* What is below the sandboxes' files and the daemon's own. */
enum disk_state {
	DISK_OK,
	DISK_FULL,      /* new work would take from what is kept for the daemon's own files */
	DISK_READ_ONLY, /* the layers' filesystem gave up after an error */
	DISK_STATE_COUNT
};
struct host_disk {
	uint32_t state; /* of enum disk_state */
	uint32_t reserved;
	uint64_t free_bytes;         /* where the data directory is, */
	uint64_t reserve_bytes;      /* and of those, what is kept */
	uint64_t layers_bytes;       /* that the layers have by now */
	uint64_t layers_free_bytes;  /* of those */
	uint64_t layers_limit_bytes; /* that they can have, as the disk is now */
};
const char *disk_state_name(uint32_t state); /* "ok", "full", "read_only" */
/* May new work begin? If not, err says why not and what to do. */
must_check int host_disk_check(const struct host_disk *disk, struct err *err);

enum grade { GRADE_PROCESS = 1, GRADE_EMULATED = 2, GRADE_HARDWARE = 3 };
struct isolation {
	uint32_t engine; /* its number; 0: there is none */
	uint32_t grade;
	uint32_t walls, gaps; /* bits of enum wall */
};

/* The host's sockets in a guest's net namespace. */
enum door_socket {
	DOOR_TCP4, /* listens: every TCP connection that leaves, with its original destination */
	DOOR_TCP6,
	DOOR_DNS4, /* UDP: what is sent to port 53 of any address */
	DOOR_DNS6,
	DOOR_SOCKETS
};

/* Called once per start(), unless kill() came first. err is NULL on success; on failure the guest
 * is already cleaned up and g must not be used again. */
typedef void (*guest_started_fn)(struct guest *g, const struct err *err, void *arg);
/* Called when a running guest's first process has ended by itself; kill() must still be called to
 * clean up. */
typedef void (*guest_ended_fn)(struct guest *g, int wait_status, void *arg);
/* Called when kill() has removed everything. */
typedef void (*guest_gone_fn)(void *arg);

/* Called now and then, and once at the end: with an image, or with err and no result. */
typedef void (*image_build_fn)(const struct image_build_result *result, const struct err *err,
                               void *arg);

/* Called once per snapshot(): with info when it is there under its id, or with err and no info. */
typedef void (*snapshot_fn)(const struct snapshot_info *info, const struct err *err, void *arg);

struct backup_counts {   /* of what is frozen, for whoever copies it to know that he has all */
	uint64_t layers; /* and volumes and snapshots */
	uint64_t images;
};
/* Called once per freeze_kept(): with counts when all is there, or with err. */
typedef void (*backup_fn)(const struct backup_counts *counts, const struct err *err, void *arg);

/* Called once per fork(): err is NULL when it is on its way to the guest's agent. */
typedef void (*guest_forked_fn)(const struct err *err, void *arg);

/* Called once per measure(), with figures in any case: without the guest's own if it has none. */
typedef void (*guest_measured_fn)(const struct guest_usage *usage, void *arg);

/* Called once per plug(): err is NULL when the guest has what it was to have. */
typedef void (*guest_plugged_fn)(const struct err *err, void *arg);

struct engine_host {             /* what an engine is given once, at probe() */
	struct guest_host *base; /* of the first engine, for the others */
	struct loop *loop;
	const char *data_dir;    /* root-owned; layers and templates live below it */
	const char *run_dir;     /* a directory per sandbox: RUN/sandboxes/ID/{agent.sock,record} */
	const char *kernels_dir; /* the interpreters' drivers, or NULL: there are none */
	const char *warm_modules; /* of Python's zygote, parted by commas; NULL: no zygotes */
	int agent_fd;             /* the agent's binary as a sealed memfd */
	int vmm_fd;               /* cloche-vmm's likewise, or -1: no vms */
	bool is_vm_emulated;      /* told to do without KVM */
	uint64_t vm_boot_us;      /* that a vm may take until its agent serves */
	bool is_plain_storage;  /* told to do without btrfs: plain directories, no disk limit, a gap
	                         */
	uint32_t sandboxes_max; /* at once, spares among them */
	uint64_t disk_reserve;  /* bytes kept for the daemon's own files; 0: by the disk's size */
	uint32_t disk_share;    /* percent of the layers' room that one owner may fill */
	/* Called when what disk() tells has changed, or is a while old. NULL: nobody asks. */
	void (*disk_changed)(const struct host_disk *disk, void *arg);
	void *disk_arg;
	/* Called for every guest, whoever started it and however it ended, when its last process is
	 * dead and before its counters go. */
	void (*final)(const char *id, const struct guest_usage *usage, void *arg);
	void *final_arg;
};

/* What may be wrong with an engine while it runs. */
struct engine_condition {
	uint32_t layers_are_read_only; /* the kernel gave their filesystem up, or somebody did */
	uint32_t zygote_deaths;        /* of one zygote, one after the other without a fork */
};

#define ENGINES_MAX 4
/* The number of the first row. That engine sets up, takes down and sweeps what all guests share,
 * keeps what outlives them (layers, images, snapshots, volumes), and runs the daemon's own
 * sandboxes, such as those of builds. */
#define ENGINE_BASE 1

/* What cloche has to know of an engine's guests to treat them rightly. */
struct engine_traits {
	bool has_own_kernel;  /* it is a machine: boots, hangs, crashes and stands still as a whole
	                       */
	bool may_be_emulated; /* what runs inside may take many times as long */
	bool has_own_disk;    /* its files are in a disk whose size is fixed, and in no directory */
	bool has_volumes;
	bool has_copies; /* a new one starts as a copy of one that has booted */
	/* What making one ahead costs, until the first was measured; never 0. */
	uint64_t spare_us, spare_bytes;
};

struct engine {
	const char *name; /* as clients write it */
	uint32_t number;  /* 1 to ENGINES_MAX, its own for ever: records and messages have it */
	struct engine_traits traits;
	const struct guest_kind *kind; /* of guests that engine/guest runs; NULL: of none */
	/* Can this host run it? Sets up what all guests share (storage, cgroup root). If not, err
	 * says what is missing. *ret is handed to the calls below; leave() frees it. Rows behind
	 * the first are asked again and again while they are refused: what was installed meanwhile
	 * is to be noticed. */
	int (*probe)(const struct engine_host *given, struct guest_host **ret, struct err *err);
	void (*leave)(struct guest_host *host); /* the broker stops: takes down what probe() made if
	                        no guest is alive, else leaves it */
	struct isolation (*isolation)(struct guest_host *host,
	                              const struct guest *g); /* NULL: of the next one */
	/* As it is now, or was a moment ago. NULL: nobody knows. */
	void (*disk)(struct guest_host *host, struct host_disk *ret);
	int (*start)(struct guest_host *host, const struct guest_spec *spec,
	             guest_started_fn started, guest_ended_fn ended, void *arg, struct guest **ret,
	             struct err *err);
	/* Takes over a guest of an earlier broker from its record; -ESRCH and everything of it
	 * removed if it is dead; -EPROTONOSUPPORT and nothing touched if the record is of another
	 * version; -ENOENT and nothing touched if it is none of its guests. The last row is asked
	 * first, and the first row takes what is nobody's. NULL: the first row does it. */
	int (*adopt)(struct guest_host *host, const char *id, guest_ended_fn ended, void *arg,
	             struct guest **ret, struct guest_spec *ret_spec, struct err *err);
	int (*connect)(struct guest *g, int *ret_fd,
	               struct err *err); /* a fresh non-blocking stream to its agent */
	int (*set_limits)(struct guest *g, const struct guest_limits *limits, struct err *err);
	int (*usage)(struct guest *g, struct guest_usage *ret, struct err *err);
	/* The same, with what only the guest's own kernel counts; usage() where it cannot be asked.
	 * NULL: usage() has all. */
	int (*measure)(struct guest *g, guest_measured_fn fn, void *arg, struct err *err);
	void (*shortage)(struct guest *g, struct guest_shortage *ret);
	/* Off: 0 at once. On: 1 until all of it stands still: to be called again, then 0. */
	int (*freeze)(struct guest *g, bool on, struct err *err);
	/* A warm Python for a START_FORKED of that tag, which the guest's agent waits for. NULL: an
	 * engine that has none. */
	int (*fork)(struct guest *g, const char *tag, guest_forked_fn forked, void *arg,
	            struct err *err);
	/*
	 * The guest's one way out. Without a door it has no route: every connect() fails at once.
	 * Opening an open one replaces its sockets; connections to the old ones are cut when those
	 * are closed. ret_fds are non-blocking, -1 where the host has no IPv6. NULL: no doors.
	 */
	int (*open_door)(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err);
	int (*close_door)(struct guest *g, struct err *err); /* a closed one is fine */
	/* On: an open door is there for the guest too, which has a card for it. Off: no more,
	 * before the door is closed. NULL: it is as soon as it is open. */
	int (*plug)(struct guest *g, bool on, guest_plugged_fn fn, void *arg, struct err *err);
	/* A TCP socket that is on its way to the loopback address of family (AF_INET, AF_INET6)
	 * inside; writable once it is there or has failed (SO_ERROR). NULL: its agent dials. */
	int (*dial)(struct guest *g, int family, uint16_t port, int *ret_fd, struct err *err);
	/* Cannot fail, may be called in any state, once. Leaves nothing but a layer with a keeper.
	 */
	void (*kill)(struct guest *g, guest_gone_fn gone, void *arg);
	/* Removes the layer that was kept under an id of which no guest lives. 0: there is none
	 * (any more); 1: gone is called later. */
	int (*discard)(struct guest_host *host, const char *id, guest_gone_fn gone, void *arg);
	/* Calls fn for each layer that has a keeper, of the living too. */
	void (*each_kept)(struct guest_host *host,
	                  void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg);
	/*
	 * Makes an image of what a sandbox of that id has written over base (zero: host). It may
	 * run, or only its kept layer be there. *ret is the engine's, until fn was called for the
	 * last time. NULL: no templates.
	 */
	int (*build_image)(struct guest_host *host, const char *id, const struct digest *base,
	                   const struct image_build_spec *spec, image_build_fn fn, void *arg,
	                   struct image_build **ret, struct err *err);
	void (*cancel_image_build)(
		struct image_build *s); /* its end is told all the same, from here or later */
	void (*each_image)(struct guest_host *host,
	                   void (*fn)(const struct image_info *info, void *arg), void *arg);
	/* Refused while a guest uses it. One that is not there is fine. */
	int (*remove_image)(struct guest_host *host, const struct digest *image, struct err *err);
	/*
	 * Saves a guest as it is at one moment, or the layer that was kept under its id; the guest
	 * stands still for that moment and goes on. image is what lies below the files. There is
	 * one at a time of a guest. NULL: no snapshots.
	 */
	int (*snapshot)(struct guest_host *host, const char *id, const struct digest *image,
	                const struct snapshot_spec *spec, snapshot_fn fn, void *arg,
	                struct err *err);
	/* What was started from it has its own copy and goes on. As discard(). */
	int (*discard_snapshot)(struct guest_host *host, const char *id, guest_gone_fn gone,
	                        void *arg);
	void (*each_snapshot)(struct guest_host *host,
	                      void (*fn)(const struct snapshot_info *info, void *arg), void *arg);
	/* An empty one, of its guests' uid 1000. NULL: no volumes. */
	int (*make_volume)(struct guest_host *host, const struct volume_spec *spec,
	                   struct err *err);
	/* Refused while a guest has it. One that is not there is fine. */
	int (*discard_volume)(struct guest_host *host, const char *id, struct err *err);
	void (*each_volume)(struct guest_host *host,
	                    void (*fn)(const struct volume_info *info, void *arg), void *arg);
	/*
	 * All that outlives guests (kept layers, volumes, snapshots, images) as it is now, frozen
	 * for a backup that is copied from it (engine/guest/backup.h). One at a time, until
	 * release_kept(), also behind a failure. NULL: no backups.
	 */
	int (*freeze_kept)(struct guest_host *host, backup_fn fn, void *arg, struct err *err);
	int (*release_kept)(struct guest_host *host, guest_gone_fn gone,
	                    void *arg); /* as discard() */
	/* *ret_pidfd is a child that ends when all layers and volumes are on disk as they were when
	 * it was made, with 0. NULL: there are none. */
	int (*sync_layers)(struct guest_host *host, int *ret_pidfd);
	/* Whose a layer or volume is: all of one owner have host.disk_share of the room together.
	 * One that is not there is fine. NULL: nobody has a share. */
	int (*set_owner)(struct guest_host *host, const char *layer, uint64_t owner,
	                 struct err *err);
	/* For whom a guest works, or is begun: all of one owner have a part of the CPU together, by
	 * its weight; what nobody waits for yet has less of it. One that is not there is fine.
	 * NULL: all are alike. */
	void (*weigh)(struct guest_host *host, const char *id, uint64_t owner, uint32_t weight,
	              bool is_ahead);
	/* The kernel of vms is in that image from now on. NULL: no templates. */
	int (*set_kernel)(struct guest_host *host, const struct digest *image, struct err *err);
	/* What is wrong with what all guests share. NULL: it never knows. */
	void (*condition)(struct guest_host *host, struct engine_condition *ret);
	/* Once, after every adopt(): removes what earlier brokers left of sandboxes that is_known()
	 * does not claim, kept layers apart. Only what bears a valid sandbox id is touched. Goes on
	 * in the background.
	 */
	void (*sweep)(struct guest_host *host, bool (*is_known)(const char *id, void *arg),
	              void *arg);
};

/* The engines, in the order in which a sandbox that asks for none gets one; the last is NULL. */
extern const struct engine *const engines[];
const struct engine *engine_find(uint32_t number); /* NULL: there is none */
const struct engine *engine_find_name(const char *name);
const char *engine_name(uint32_t number);                   /* "none" where there is none */
const struct engine_traits *engine_traits(uint32_t number); /* of one that there is */
