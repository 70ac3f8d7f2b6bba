// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * RUN/sandboxes/ID/record: what a later broker needs to take a guest over. Written before the
 * guest runs. A pid may be reused after a crash, so the record also has the boot and the start time
 * of that process, and guest_record_open_process() checks both.
 */
#include "engine/engine.h"

#define GUEST_RECORD_VERSION  6    /* that is written */
#define GUEST_RECORD_OLDEST   4    /* that is read: guest_record.c says how a field is added */
#define GUEST_RECORD_SIZE_MAX 2048 /* bytes, of any version */

struct guest_record { /* in memory */
	uint32_t magic;
	uint32_t version;
	struct guest_spec spec;
	int32_t pid;
	uint32_t reserved;
	uint64_t start_ticks; /* field 22 of /proc/PID/stat */
	char boot_id[40];
};

must_check int guest_record_write(int dir_fd, const struct guest_spec *spec, pid_t pid,
                                  struct err *err);
/* -EPROTO if it is not one of ours, -ENOENT if there is none, -EPROTONOSUPPORT if its version
 * cannot be read here; ret->version is then set. */
must_check int guest_record_read(int dir_fd, const char *id, struct guest_record *ret);
/* The process, by pidfd; -ESRCH when it is gone. */
must_check int guest_record_open_process(const struct guest_record *record, int *ret_pidfd);

/* RUN/sandboxes/ID/saver: the same for the process that saves the guest's memory, which may outlive
 * the broker that started it. < 0: there is none (any more). */
must_check int guest_record_write_saver(int dir_fd, const struct guest_spec *spec, pid_t pid,
                                        struct err *err);
must_check int guest_record_open_saver(int dir_fd, const char *id, int *ret_pidfd);

/* The size and the bytes of a record, for the two above. */
size_t guest_record_size(uint32_t version);
size_t guest_record_to_bytes(const struct guest_record *record,
                             unsigned char bytes[GUEST_RECORD_SIZE_MAX]);
must_check int guest_record_from_bytes(const unsigned char *bytes, size_t len,
                                       struct guest_record *ret);
