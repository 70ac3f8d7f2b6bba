// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The interface of an engine; the rest of cloche knows nothing else about it. An engine runs in the
 * broker, on its loop. It owns every host object of its guests (processes, mounts, cgroups, layers,
 * sockets) and removes them all in kill(), in any state, also for a guest that it adopted from an
 * earlier broker's record.
 *
 * The engines are the rows of engines[] (engines.c). Other code does not ask which engine a guest
 * has: the engine's traits, and which of its calls are not NULL, say what it can do.
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
#define VOLUME_PATH_SIZE 128 /* of its path in a guest, with its NUL */

/* A volume in a guest: files that exist before the guest and outlive it. */
struct guest_volume {
	char id[ID_SIZE];            /* of kind "vo"; "": end of the list */
	char path[VOLUME_PATH_SIZE]; /* as volume_check_path() has it */
	uint32_t is_read_only;
	uint32_t reserved;
};
/* NULL, or why a volume cannot be mounted there. The path is one inside the sandbox. */
const char *volume_check_path(const char *path);
/* Whether one of two paths is inside the other, or they are the same. */
bool volume_paths_overlap(const char *a, const char *b);

struct volume_spec {
	char id[ID_SIZE];
	uint64_t keeper; /* whoever knows of it, as of a guest's layer; never 0 */
	uint64_t bytes;  /* that its files and their names may take */
};

/* A new volume with the files of another. */
struct volume_copy_spec {
	struct volume_spec made;
	char source[ID_SIZE];
	uint64_t owner; /* as set_owner() has it, from the first byte on; 0: it has none */
};
typedef void (*volume_copied_fn)(const struct err *err, void *arg); /* err is NULL if it is there */

struct volume_info {
	char id[ID_SIZE];
	uint64_t keeper; /* UINT64_MAX where it cannot be told, which is no store's number */
	uint64_t used_bytes;
};

/* What a guest that starts from a snapshot takes from it. */
enum guest_memory {
	MEMORY_NONE, /* its files alone */
	MEMORY_COPY, /* also its processes, if it has them */
	MEMORY_WARM, /* a vm's: as MEMORY_COPY, and only with the kernel that is in use now */
};

/* Whether it is a sandbox of "host", and the image no root of it but its directory /template. */
enum guest_shows {
	SHOWS_NOTHING,
	SHOWS_IMAGE,          /* which nobody can change */
	SHOWS_IMAGE_TO_WRITE, /* what is changed there is kept aside, for a new image over it */
};

struct guest_spec {
	char id[ID_SIZE];
	char hostname[64];
	uint32_t slot;        /* picked by the broker: names the uid range */
	uint32_t is_resumed;  /* 1: starts over the layer that was kept under its id */
	uint32_t shows;       /* of enum guest_shows */
	uint32_t engine;      /* its number */
	uint32_t is_kvm;      /* a vm's, set by its engine */
	uint32_t with_memory; /* of enum guest_memory */
	struct digest image;  /* of its template; zero = "host", which has none */
	struct guest_limits limits;
	/* 0: its layer is removed with it. Else the layer is marked with this number of the store
	 * that knows it, and stays when the guest ends, until discard(). */
	uint64_t keeper;
	/* "": it starts from its template. Else a snapshot's id: it starts from a copy of that.
	 * With is_resumed the copy replaces the kept layer, in one step. */
	char snapshot[ID_SIZE];
	/* Snapshots whose roots the guest finds in /shown, read-only (see jail/rootfs.c). All are
	 * of its engine and over one template: "host" or the shown image; for a vm, its own. "":
	 * none.
	 */
	char shown[SHOWN_MAX][ID_SIZE];
	struct guest_volume volumes[VOLUMES_MAX]; /* the first ones */
};

/* How a snapshot is taken of a guest, or of the layer that was kept under its id. */
struct snapshot_spec {
	char id[ID_SIZE];    /* of kind "sn" */
	uint64_t keeper;     /* whoever knows of it, as of a guest's layer; never 0 */
	uint32_t has_memory; /* 1: its processes too */
	uint32_t is_brief;   /* 1: it need not outlive a crash of the host */
	/* With memory: 1: open TCP connections are closed in the copy. 0: the snapshot is refused
	 * if there are any. */
	uint32_t closes_connections;
	/* With memory: 1: the guest does not go on. After the callback it stays stopped until
	 * kill(), or until freeze() lets it go on after all. */
	uint32_t is_last;
};

struct snapshot_info {
	char id[ID_SIZE], source[ID_SIZE];
	uint64_t keeper;
	/* Which of its source's layers it is from: each rollback starts a new one. Snapshots of one
	 * line share what the source wrote. 0: the first layer. */
	uint64_t line;
	uint64_t bytes; /* of all its files, shared or not */
	/* What its source had written by then and still has. Earlier snapshots of the same source
	 * share these bytes on disk. */
	uint64_t written_bytes;
	uint64_t memory_bytes; /* 0: it has none */
	struct digest image;   /* of the template below the files */
	uint32_t is_unshared;  /* 1: this host cannot count bytes once; written_bytes are all */
	uint32_t reserved;
};

struct image_build_spec {       /* how a sandbox's root becomes an image */
	uint64_t epoch_s;       /* no file in it is newer */
	uint64_t bytes_max;     /* of the image */
	uint64_t keeper;        /* whoever knows of it, as of a guest's layer */
	uint32_t is_tree;       /* 1: the directory /template of the sandbox, not its root */
	uint32_t is_over;       /* 1: likewise, of one with SHOWS_IMAGE_TO_WRITE */
	uint32_t is_small;      /* 1: slower to make, but smaller */
	uint32_t is_whole;      /* 1: with temporary files, caches and logs */
	char snapshot[ID_SIZE]; /* of its files as they were saved there; "": as they are now */
};

#define IMAGE_BASES_MAX 8

struct image_bases { /* the images that one needs, because they have blocks of its files */
	uint32_t n, reserved;
	struct {
		struct digest digest;
		uint64_t bytes;
	} list[IMAGE_BASES_MAX];
};

struct image_build_result {
	struct digest image; /* zero: not yet, bytes are how far it has come */
	uint64_t bytes;
	struct image_bases bases;
};

struct image_info {
	struct digest digest;
	uint64_t bytes;  /* its own */
	uint64_t keeper; /* UINT64_MAX where it cannot be told, which is no store's number */
	struct image_bases bases;
};

struct image_claim { /* an image that goes to another node of the cluster, or comes from one */
	struct digest image;
	struct digest class;    /* whose it is: what another one has is not theirs */
	struct digest seal;     /* of a broker, over the three (object/object_seal.h) */
	uint64_t bytes, keeper; /* of the whole; as of a build */
	uint32_t is_base;       /* 1: it is here for another one alone */
	uint32_t reserved;
};

struct image_shared {
	uint64_t bytes;
	struct digest seal;
	struct image_bases bases;
};

struct sealed_file_spec {           /* files of a snapshot (template/sealed_file.h) */
	uint64_t number;            /* the gateway's own */
	uint64_t bytes;             /* is_fetched: its size; else the most it may have */
	uint64_t generation;        /* of its sandbox's snapshots */
	struct digest class;        /* whose it is: project, sandbox and snapshot */
	struct digest digest, seal; /* is_fetched: what it must be, and a broker's word for it */
	uint32_t is_fetched;        /* 1: from elsewhere */
	uint32_t reserved;
};

struct sealed_file_result {
	uint64_t bytes;
	struct digest digest, seal;
};
/* fd: to read, borrowed; -1 with an err. */
typedef void (*sealed_file_fn)(const struct sealed_file_result *result, int fd,
                               const struct err *err, void *arg);

struct guest_usage {
	uint64_t cpu_ns, memory_bytes, memory_peak_bytes;
	uint64_t disk_bytes; /* its own; snapshots are charged for their part */
	uint64_t pids, oom_kills;
	uint64_t pids_refused; /* processes that the limit did not let begin */
	uint64_t files_bytes;  /* all its files, with those from its snapshot */
	uint64_t left_bytes;   /* of its disk, as its own kernel says; if is_left_told */
	bool is_left_told;
};

/* A shortage of memory in the cgroup of the guest's first process, which is outside the guest's own
 * limits. */
struct guest_shortage {
	uint64_t oom_kills; /* of that process; 0: it had enough */
	uint64_t limit_bytes, peak_bytes;
};

/* The walls around a guest, and the gaps, where one is missing: bits, named by wall_name(). */
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
	/* Not a wall; set only as a gap: this host cannot save the memory of this engine's
	 * guests. */
	WALL_MEMORY_SNAPSHOTS,
	WALL_COUNT,
};
const char *wall_name(enum wall wall); /* "user_namespace", … */

/* The state of the disk with the sandboxes' files and the daemon's own. */
enum disk_state {
	DISK_OK,
	DISK_FULL,      /* new work would use the reserve for the daemon's own files */
	DISK_READ_ONLY, /* the layers' filesystem gave up after an error */
	DISK_STATE_COUNT
};
struct host_disk {
	uint32_t state; /* of enum disk_state */
	uint32_t reserved;
	uint64_t free_bytes;         /* on the disk of the data directory, */
	uint64_t reserve_bytes;      /* and how much of that is reserved */
	uint64_t layers_bytes;       /* that the layers have by now */
	uint64_t layers_free_bytes;  /* of those */
	uint64_t layers_limit_bytes; /* that they can have, as the disk is now */
};
const char *disk_state_name(uint32_t state); /* "ok", "full", "read_only" */
/* Whether new work may start. If not, err says why and what to do. */
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
	DOOR_DNS4, /* UDP: queries to port 53 of any address */
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

/* Called now and then with the progress, and once at the end: with an image, or with err and no
 * result. */
typedef void (*image_build_fn)(const struct image_build_result *result, const struct err *err,
                               void *arg);

/* Called once per snapshot(): with info when it exists under its id, or with err and no info. */
typedef void (*snapshot_fn)(const struct snapshot_info *info, const struct err *err, void *arg);

struct backup_counts {   /* numbers of frozen things, so that the copier can check them */
	uint64_t layers; /* and volumes and snapshots */
	uint64_t images;
};
/* Called once per freeze_kept(): with counts when everything is frozen, or with err. */
typedef void (*backup_fn)(const struct backup_counts *counts, const struct err *err, void *arg);

/* Called once per fork(): err is NULL when the fork was sent to the guest's agent. */
typedef void (*guest_forked_fn)(const struct err *err, void *arg);

/* Called once per measure(), always with figures; those of the guest's own kernel may be
 * missing. */
typedef void (*guest_measured_fn)(const struct guest_usage *usage, void *arg);

/* Called once per plug(): err is NULL on success. */
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
	bool is_vm_emulated;      /* set to work without KVM */
	uint64_t vm_boot_us;      /* that a vm may take until its agent serves */
	bool is_plain_storage; /* set to work without btrfs: plain directories, no disk limit, a gap
	                        */
	bool favors_moves;     /* the host's cgroup tree gets the option favordynmods */
	uint32_t sandboxes_max; /* at once, spares among them */
	uint64_t disk_reserve;  /* bytes kept for the daemon's own files; 0: by the disk's size */
	uint64_t disk_ahead;    /* bytes that layers have allocated ahead of their use; likewise */
	uint32_t disk_share;    /* percent of the layers' room that one owner may fill */
	/* Called when the result of disk() has changed, or is a while old. May be NULL. */
	void (*disk_changed)(const struct host_disk *disk, void *arg);
	void *disk_arg;
	/* Called for every guest, however it started and ended, when its last process is dead and
	 * before its counters are removed. */
	void (*final)(const char *id, const struct guest_usage *usage, void *arg);
	void *final_arg;
};

/* What may be wrong with an engine while it runs. */
struct engine_condition {
	uint32_t layers_are_read_only; /* the kernel gave their filesystem up, or somebody did */
	uint32_t zygote_deaths;        /* of one zygote in a row, without a fork between them */
};

/* What was seen of an engine's guests since the host's start. */
enum engine_speed {
	SPEED_FULL, /* they run at the hardware's speed; of an engine that is not asked: always */
	SPEED_UNTRIED,  /* they may, as far as one can see from outside */
	SPEED_SLOW,     /* they run, and take long to start */
	SPEED_EMULATED, /* the hardware does not run them */
};

/* Of a guest with a kernel of its own: less does not hold kernel, agent and a small program, nor an
 * ext4 with its journal. */
#define MACHINE_MEMORY_LEAST (UINT64_C(128) << 20)
#define MACHINE_DISK_LEAST   (UINT64_C(16) << 20)

#define ENGINES_MAX 4
/* The number of the first row. That engine sets up, removes and sweeps what all guests share,
 * stores what outlives them (layers, images, snapshots, volumes), and runs the daemon's own
 * sandboxes, such as those of builds. */
#define ENGINE_BASE 1

/* Properties of an engine's guests that other code needs to know. */
struct engine_traits {
	bool has_own_kernel;  /* it is a machine: it boots, hangs, crashes and freezes as a whole */
	bool may_be_emulated; /* what runs inside may take many times as long */
	bool has_own_disk;    /* its files are in a disk whose size is fixed, and in no directory */
	bool has_volumes;
	bool has_copies; /* a new guest starts as a copy of a booted one */
	/* The assumed cost of making a spare, until the first one was measured; never 0. */
	uint64_t spare_us, spare_bytes;
};

struct engine {
	const char *name; /* as clients write it */
	uint32_t number;  /* 1 to ENGINES_MAX, its own for ever: records and messages have it */
	struct engine_traits traits;
	const struct guest_kind *kind; /* of guests that engine/guest runs; NULL: of none */
	/* Checks whether this host can run it, and sets up what all guests share (storage, cgroup
	 * root). If not, err says what is missing. *ret is passed to the calls below; leave() frees
	 * it. While a row after the first is refused, it is probed again now and then, so that a
	 * later installation is noticed. */
	int (*probe)(const struct engine_host *given, struct guest_host **ret, struct err *err);
	void (*leave)(struct guest_host *host); /* the broker stops: takes down what probe() made if
	                        no guest is alive, else leaves it */
	struct isolation (*isolation)(struct guest_host *host,
	                              const struct guest *g); /* NULL: of the next one */
	enum engine_speed (*speed)(struct guest_host *host);  /* NULL: full */
	/* The state of the disk now or a moment ago. NULL: not known. */
	void (*disk)(struct guest_host *host, struct host_disk *ret);
	int (*start)(struct guest_host *host, const struct guest_spec *spec,
	             guest_started_fn started, guest_ended_fn ended, void *arg, struct guest **ret,
	             struct err *err);
	/* Takes over a guest of an earlier broker from its record. -ESRCH if it is dead; everything
	 * of it is then removed. -EPROTONOSUPPORT if the record is of another version, and -ENOENT
	 * if it is not a guest of this engine; nothing is touched then. The last row is asked
	 * first; the first row takes what no other takes. NULL: the first row does it. */
	int (*adopt)(struct guest_host *host, const char *id, guest_ended_fn ended, void *arg,
	             struct guest **ret, struct guest_spec *ret_spec, struct err *err);
	int (*connect)(struct guest *g, int *ret_fd,
	               struct err *err); /* a fresh non-blocking stream to its agent */
	int (*set_limits)(struct guest *g, const struct guest_limits *limits, struct err *err);
	int (*usage)(struct guest *g, struct guest_usage *ret, struct err *err);
	/* The same, with what only the guest's own kernel counts, if that can be asked. NULL:
	 * usage() has everything. */
	int (*measure)(struct guest *g, guest_measured_fn fn, void *arg, struct err *err);
	void (*shortage)(struct guest *g, struct guest_shortage *ret);
	/* Off: returns 0 at once. On: returns 1 until all processes are frozen, to be called again;
	 * then 0. */
	int (*freeze)(struct guest *g, bool on, struct err *err);
	/* Sends a warm Python for a START_FORKED of that tag, which the guest's agent waits for.
	 * NULL: not supported. */
	int (*fork)(struct guest *g, const char *tag, guest_forked_fn forked, void *arg,
	            struct err *err);
	/*
	 * The guest's one way out. Without a door it has no route: every connect() fails at once.
	 * Opening an open one replaces its sockets; connections to the old ones are cut when those
	 * are closed. ret_fds are non-blocking, -1 where the host has no IPv6. NULL: no doors.
	 */
	int (*open_door)(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err);
	int (*close_door)(struct guest *g, struct err *err); /* a closed one is fine */
	/* On: gives the guest a network card for its open door. Off: removes it, before the door is
	 * closed. NULL: the guest needs none. */
	int (*plug)(struct guest *g, bool on, guest_plugged_fn fn, void *arg, struct err *err);
	/* A TCP socket that connects to the loopback address of family (AF_INET, AF_INET6) inside;
	 * writable once it is connected or has failed (SO_ERROR). NULL: its agent dials. */
	int (*dial)(struct guest *g, int family, uint16_t port, int *ret_fd, struct err *err);
	/* Cannot fail; called once, in any state. Removes everything except a layer with a
	 * keeper. */
	void (*kill)(struct guest *g, guest_gone_fn gone, void *arg);
	/* Removes the layer that was kept under an id without a living guest. 0: there is none (any
	 * more); 1: gone is called later. */
	int (*discard)(struct guest_host *host, const char *id, guest_gone_fn gone, void *arg);
	/* Calls fn for each layer that has a keeper, also those of living guests. */
	void (*each_kept)(struct guest_host *host,
	                  void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg);
	/*
	 * Makes an image of what a sandbox of that id has written over base (zero: host). The
	 * sandbox may run, or have only a kept layer. The engine owns *ret, until fn was called for
	 * the last time. NULL: no templates.
	 */
	int (*build_image)(struct guest_host *host, const char *id, const struct digest *base,
	                   const struct image_build_spec *spec, image_build_fn fn, void *arg,
	                   struct image_build **ret, struct err *err);
	void (*cancel_image_build)(
		struct image_build *s); /* its end is still reported, from here or later */
	void (*each_image)(struct guest_host *host,
	                   void (*fn)(const struct image_info *info, void *arg), void *arg);
	/* Refused while a guest uses it. A missing one is fine. */
	int (*remove_image)(struct guest_host *host, const struct digest *image, struct err *err);
	/* Images that go to other nodes, and come from them (template/image_exchange.h). *ret_fd of
	 * fetch -1: it is here, and can be taken. take: 0 with *ret, or 1: fn is called once. NULL:
	 * none. */
	int (*share_image)(struct guest_host *host, const struct image_claim *claim, int *ret_fd,
	                   struct image_shared *ret, struct err *err);
	int (*fetch_image)(struct guest_host *host, const struct image_claim *claim, int *ret_fd,
	                   struct err *err);
	int (*take_image)(struct guest_host *host, const struct image_claim *claim,
	                  image_build_fn fn, void *arg, struct image_shared *ret, struct err *err);
	void (*drop_image)(struct guest_host *host, const struct digest *image);
	/* Files of snapshots that go and come likewise (template/sealed_file.h): an empty one to
	 * fill; close: it is full, 1: fn is called once. NULL: none. */
	int (*open_sealed)(struct guest_host *host, const struct sealed_file_spec *spec,
	                   int *ret_fd, struct err *err);
	int (*close_sealed)(struct guest_host *host, uint64_t number, sealed_file_fn fn, void *arg,
	                    struct err *err);
	void (*drop_sealed)(struct guest_host *host, uint64_t number);
	/* The key of what the gateways of a cluster share (template/seal_key.h). NULL: none. */
	int (*gateway_key)(struct guest_host *host, uint8_t ret[32], struct err *err);
	/*
	 * Saves a guest as it is at one moment, or the layer that was kept under its id. The guest
	 * stops for that moment and goes on. image is the template below the files. One at a time
	 * for each guest. NULL: no snapshots.
	 */
	int (*snapshot)(struct guest_host *host, const char *id, const struct digest *image,
	                const struct snapshot_spec *spec, snapshot_fn fn, void *arg,
	                struct err *err);
	/* As discard(). Guests that were started from it have their own copies and go on. */
	int (*discard_snapshot)(struct guest_host *host, const char *id, guest_gone_fn gone,
	                        void *arg);
	void (*each_snapshot)(struct guest_host *host,
	                      void (*fn)(const struct snapshot_info *info, void *arg), void *arg);
	/* Makes an empty one, owned by its guests' uid 1000. NULL: no volumes. */
	int (*make_volume)(struct guest_host *host, const struct volume_spec *spec,
	                   struct err *err);
	/* Its files are those of one moment, also while guests write to the source. fn comes later,
	 * unless the engine leaves first; then nothing is left of it. NULL: no copies. */
	int (*copy_volume)(struct guest_host *host, const struct volume_copy_spec *spec,
	                   volume_copied_fn fn, void *arg, struct err *err);
	/* Refused while a guest has it. A missing one is fine. */
	int (*discard_volume)(struct guest_host *host, const char *id, struct err *err);
	void (*each_volume)(struct guest_host *host,
	                    void (*fn)(const struct volume_info *info, void *arg), void *arg);
	/*
	 * Freezes a copy of all that outlives guests (kept layers, volumes, snapshots, images) as
	 * it is now, for a backup (engine/guest/backup.h). One at a time; must be followed by
	 * release_kept(), also after a failure. NULL: no backups.
	 */
	int (*freeze_kept)(struct guest_host *host, backup_fn fn, void *arg, struct err *err);
	int (*release_kept)(struct guest_host *host, guest_gone_fn gone,
	                    void *arg); /* as discard() */
	/* *ret_pidfd is a child that exits with 0 when all layers and volumes are on disk, as they
	 * were when it was made. NULL: there are none. */
	int (*sync_layers)(struct guest_host *host, int *ret_pidfd);
	/* Sets the owner of a layer or volume: all of one owner together may use host.disk_share of
	 * the room. A missing one is fine. NULL: there are no shares. */
	int (*set_owner)(struct guest_host *host, const char *layer, uint64_t owner,
	                 struct err *err);
	/* Sets the owner of a guest: all guests of one owner together have a part of the CPU, by
	 * its weight; guests that nobody waits for yet have less. A missing guest is fine. NULL:
	 * all have the same weight. */
	void (*weigh)(struct guest_host *host, const char *id, uint64_t owner, uint32_t weight,
	              bool is_ahead);
	/* Takes the kernel of vms from that image from now on. NULL: no templates. */
	int (*set_kernel)(struct guest_host *host, const struct digest *image, struct err *err);
	/* What is wrong with the things that all guests share. NULL: not known. */
	void (*condition)(struct guest_host *host, struct engine_condition *ret);
	/* Called once, after every adopt(): removes what earlier brokers left of sandboxes that
	 * is_known() does not know, except kept layers. Only things named by a valid sandbox id are
	 * touched. Goes on in the background.
	 */
	void (*sweep)(struct guest_host *host, bool (*is_known)(const char *id, void *arg),
	              void *arg);
};

/* The engines. A sandbox that does not ask for one gets the first that works. The last is NULL. */
extern const struct engine *const engines[];
const struct engine *engine_find(uint32_t number); /* NULL: there is none */
const struct engine *engine_find_name(const char *name);
const char *engine_name(uint32_t number);                   /* "none" where there is none */
const struct engine_traits *engine_traits(uint32_t number); /* of one that there is */
