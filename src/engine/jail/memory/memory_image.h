// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A saved memory: the directory that CRIU has written, with files of our own.
 *
 *	*.img		CRIU's images: 8 bytes of magic, then messages of protobuf, each behind its
 *			length as a u32
 *	mounts		the guest's mounts: as mountinfo has them, root and place, a line each
 *	walls		what held each thread (confinement.h)
 *	token		what the saved agent is waiting for (proto/quiet.h)
 *	boot		the sandbox's id, and its boot's (memory_boot.h)
 *	agent		SHA-256 of its program (memory_agent.h)
 *	manifest	names, sizes and SHA-256 of all others (of pages, a checksum); kernel,
 *			processor and agent; its own SHA-256. Written last
 *
 * Images belong to root and are made only by us, never uploaded. So a bad image is damaged or too
 * old, and the manifest shows both: of what CRIU parses before CRIU reads a byte, of the pages
 * before a process that has them goes on.
 */
#include "base/digest.h"
#include "base/err.h"
#include "proto/quiet.h"

#define MEMORY_MOUNTS      "mounts"
#define MEMORY_CONFINEMENT "walls"
#define MEMORY_TOKEN       "token"
#define MEMORY_BOOT        "boot"
#define MEMORY_AGENT_HASH  "agent"
#define MEMORY_MANIFEST    "manifest"
/* The agent's program is a memfd, from which CRIU cannot restore /proc/1/exe. So the images are
 * changed to say that it is an external file of this name. */
#define MEMORY_AGENT "cloche-agent"

must_check int memory_image_repair(int dir_fd, struct err *err); /* for that name */
/* Changes the images so and writes the manifest: the last step of a dump. *ret_bytes: of all
 * files. */
must_check int memory_image_finish(int dir_fd, uint64_t *ret_bytes, struct err *err);
/* The same in two steps; the second reads all files. */
must_check int memory_image_prepare(int dir_fd, uint64_t *ret_bytes, struct err *err);
must_check int memory_image_describe(int dir_fd, uint64_t *ret_bytes, struct err *err);
/* Which agent the manifest names. */
must_check int memory_image_read_agent(int dir_fd, struct digest *ret);
/* What CRIU parses, and what it only copies: nearly all of it. */
enum memory_part { MEMORY_PARSED, MEMORY_PAGES };
/* Checks that it is of this kernel and processor, that its agent's program is here or in it, and
 * that this part is whole. Reads all of the part.
 */
must_check int memory_image_check(int dir_fd, enum memory_part part, struct err *err);
/* The same without reading the files, so damage is not noticed. */
must_check int memory_image_fits(int dir_fd, struct err *err);

/* Writes the two images that differ in a copy, with its ids and its host name, into to_fd under
 * their names in dir_fd. */
must_check int memory_image_adapt(int dir_fd, int to_fd, uint32_t first_id, uint32_t n_ids,
                                  const char *hostname, struct err *err);
