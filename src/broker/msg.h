// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * All that the gateway can ask of the broker: fixed-size messages on a SOCK_SEQPACKET socket, ids
 * and numbers in, numbers and fds out. No path, no string to run. The broker treats each message as
 * hostile: wrong size, magic, op, id or number is answered with an error, never acted on.
 */
#include "engine/engine.h"
#include "loop/loop.h"

#define MSG_MAGIC   0x636c6f31 /* "clo1" */
#define MSG_FDS_MAX DOOR_SOCKETS

enum msg_op {
	MSG_PROBE = 1, /* reply: isolation and host figures */
	MSG_CREATE,    /* reply when its agent can be reached, with an fd: the stream to it */
	MSG_CONNECT,   /* reply carries an fd: a fresh stream to its agent (the old one ends) */
	MSG_DELETE,    /* reply with its last usage when every host object is gone, a kept layer
	                  too; unknown id: fine, gone already */
	MSG_LIMITS,
	MSG_USAGE,
	MSG_FREEZE, /* reply when all of it is frozen */
	MSG_THAW,
	MSG_LIST, /* a reply for each living sandbox and each kept layer, then one with an empty id
	           */
	MSG_FORK, /* a warm Python for the agent's channel of that tag; reply once it was sent */
	MSG_DOOR, /* opens or replaces its door; reply carries the fds that door.sockets names, in
	             the order of enum door_socket */
	MSG_DOOR_CLOSE, /* a closed one is fine */
	MSG_DIAL,       /* reply carries an fd: a TCP socket on its way to a port inside */
	MSG_STOP,       /* as MSG_DELETE, but a layer with a keeper stays */
	MSG_SEAL, /* makes an image of its root, running or kept; replies without a digest report
	             progress, the last one has it */
	MSG_SEAL_CANCEL,  /* of a tag; the seal's own last reply comes all the same */
	MSG_IMAGES,       /* a reply for each image, then one without a digest */
	MSG_IMAGE_REMOVE, /* refused while a sandbox runs on it; gone already: fine */
	MSG_SNAPSHOT,  /* saves it as it is at one moment, running or kept; reply when it is done */
	MSG_SNAPSHOTS, /* a reply for each snapshot, then one with an empty id */
	MSG_SNAPSHOT_REMOVE, /* gone already: fine */
	MSG_KERNEL,          /* the image that holds the kernel of vms */
	MSG_VOLUME,          /* makes an empty one; reply when it exists */
	MSG_VOLUMES,         /* a reply for each volume, then one with an empty id */
	MSG_VOLUME_REMOVE,   /* refused while a sandbox has it; gone already: fine */
	MSG_BACKUP,          /* freezes all that is kept as it is now; reply when that is done */
	MSG_BACKUP_END,      /* removes the frozen copies; reply when they are gone; none: fine */
	MSG_SYNC,            /* reply when all layers are on disk as they are now; one at a time */
	MSG_OWNER,        /* sets the owner of a sandbox's layer or a volume; gone already: fine */
	MSG_VOLUME_COPY,  /* makes one with the files of another; reply when it exists */
	MSG_IMAGE_SHARE,  /* reply carries an fd to read an image by, and its seal */
	MSG_IMAGE_FETCH,  /* reply carries an fd to fill; none: the image is here */
	MSG_IMAGE_TAKE,   /* what was filled, or is here: reply when it was checked and has its name
	                   */
	MSG_IMAGE_DROP,   /* nobody fills it any more; unknown: fine */
	MSG_SEALED_OPEN,  /* reply carries an fd to fill with the files of a snapshot */
	MSG_SEALED_CLOSE, /* it is full: reply when it was hashed, with its seal and an fd to read
	                   */
	MSG_SEALED_DROP,  /* nobody fills it any more; unknown: fine */
	MSG_GATEWAY_KEY,  /* reply has the key of what the gateways of the cluster share */
	MSG_ENDED = 64, /* broker to gateway, unasked: the guest's first process died; cause below.
	                   Tag 0 */
	MSG_DISK,       /* likewise: the state of the host's disk has changed */
};

struct msg_request {
	uint32_t magic;
	uint32_t op;
	uint64_t tag; /* the gateway's own, echoed */
	char id[ID_SIZE];
	union {
		struct {
			char hostname[64];
			uint32_t engine;      /* its number */
			uint32_t is_resumed;  /* 1 only with a keeper */
			uint32_t shows;       /* only with an image and without a keeper */
			uint32_t with_memory; /* of enum guest_memory */
			struct digest image;  /* and these as in struct guest_spec */
			struct guest_limits limits;
			uint64_t keeper;
			uint64_t owner;    /* as in owner.number; 0: it has no owner yet */
			uint32_t weight;   /* as in owner.weight */
			uint32_t is_ahead; /* 1: nobody waits for it */
			char snapshot[ID_SIZE];
			char shown[SHOWN_MAX][ID_SIZE]; /* the first ones; without a keeper */
			struct guest_volume volumes[VOLUMES_MAX]; /* likewise */
		} create;
		struct guest_limits limits;
		struct {
			struct digest base; /* the template's, if it does not run */
			struct image_build_spec spec;
		} seal;
		uint64_t seal_tag;
		struct {
			struct digest base; /* as in seal */
			struct snapshot_spec spec;
		} snapshot;
		char snapshot_id[ID_SIZE];
		struct volume_spec volume; /* of MSG_VOLUME_REMOVE only its id */
		struct volume_copy_spec volume_copy;
		struct digest image;
		struct image_claim claim;       /* of MSG_IMAGE_DROP only its image */
		struct sealed_file_spec sealed; /* of MSG_SEALED_CLOSE and _DROP only its number */
		struct {
			char layer[ID_SIZE]; /* of kind "sb" or "vo" */
			uint64_t number;     /* below 2^48; of a project, by the gateway */
			uint32_t weight;     /* of the project, beside others; 100 is the usual */
			uint32_t reserved;
		} owner;
		struct {
			char tag[ID_SIZE]; /* of kind "in" */
		} fork;
		struct {
			uint32_t family; /* AF_INET, AF_INET6 */
			uint32_t port;
		} dial;
	};
};

struct msg_reply {
	uint32_t magic;
	uint32_t op;
	uint64_t tag;
	char id[ID_SIZE];
	struct err err; /* code ERR_NONE = success */
	union {
		struct {
			struct {
				struct isolation isolation; /* engine 0: err says why not */
				uint32_t speed;             /* of enum engine_speed */
				uint32_t reserved;
				struct err err;
			} engines[ENGINES_MAX]; /* by row of engines[] */
			struct engine_condition condition;
			uint32_t cpus;
			uint32_t reserved;
			uint64_t memory_bytes;
			uint64_t disk_free_bytes;
			struct loop_stats turns; /* of its loop, since its start */
			struct host_disk disk;
		} probe;
		struct isolation isolation; /* CREATE */
		struct guest_usage usage;
		struct image_build_result seal;
		struct image_info image;
		struct image_shared shared;       /* of MSG_IMAGE_SHARE and MSG_IMAGE_TAKE */
		struct sealed_file_result sealed; /* of MSG_SEALED_CLOSE */
		struct snapshot_info snapshot;
		struct volume_info volume;
		struct backup_counts backup;
		struct host_disk disk; /* DISK */
		uint8_t gateway_key[32];
		struct {
			uint32_t sockets; /* bits of enum door_socket */
		} door;
		struct {
			struct guest_limits limits;
			struct isolation isolation;
			struct digest image;
			uint32_t is_alive; /* 0: only a kept layer */
			uint64_t keeper;
		} list;
		struct {
			int32_t wait_status; /* of the guest's first process */
			uint32_t reserved;
			struct guest_usage usage;
			struct guest_shortage shortage;
		} ended;
	};
};
