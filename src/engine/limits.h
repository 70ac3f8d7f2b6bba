// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The limits of a sandbox, each defined once. These all use the rows here: the bodies of requests
 * (src/api/frame/body.c), the rules (sandbox/model/create_rules.c), the rows of the store and the
 * replies (sandbox/model/limits_json.c), the ceilings of projects and keys (tenant/ceiling.c), the
 * settings of the daemon (daemon/config), the broker's check (broker/check.c), and the command line
 * (cli/session/spec.h). The engine enforces the limits. tests/contract/test_limits.py checks
 * openapi.yaml and the SDKs against the rows.
 *
 *	member   of the struct, and its name in rows of the store
 *	name     in the API
 *	kind     CPUS: thousandths of one, told with decimals. SIZE: bytes, told as MiB.
 *	         COUNT: of 32 bits. COUNT64: of 64
 *	least    without which a sandbox does not start, or is of no use
 *	most     that the daemon's settings may say
 *	usual    for one that asks for nothing
 *	ceiling  that the daemon has where its settings say nothing; the host may have less
 *	fixed    it cannot be changed while the sandbox runs
 *	setting, option, about, about ceiling: in the settings' sections [defaults] and [ceilings]
 *	OPTION or NO_OPTION of the command line: letter, name, about
 *
 * GUEST_LIMITS(X, a) is X(a, …) for each row; a is an extra argument for X. In the structs the
 * 64-bit members come first, so that there are no holes.
 */
#include "base/units.h"

#include <stdbool.h>
#include <stddef.h>

/* clang-format off */
#define GUEST_LIMITS(X, a)                                                                                                        \
	X(a, cpu_milli,    vcpus,      CPUS,    10,      1024000,    1000,      1024000,    false,                                \
	  "vcpus",      "vcpus",      "CPUs of a sandbox that asks for no other",    "most CPUs that a sandbox may ask for",      \
	  OPTION,       0,            "cpus",   "its share of CPUs, such as 0.5 or 2")                                            \
	X(a, memory_bytes, memory_mib, SIZE,    8 * MIB, 64 * TIB,   512 * MIB, 64 * TIB,   false,                                \
	  "memory",     "memory",     "memory of a sandbox that asks for no other",  "most memory that a sandbox may ask for",    \
	  OPTION,       'm',          "memory", "its memory, such as 512m or 2g")                                                 \
	X(a, disk_bytes,   disk_mib,   SIZE,    MIB,     1024 * TIB, 2 * GIB,   64 * GIB,   false,                                \
	  "disk",       "disk",       "disk of a sandbox that asks for no other",    "most disk that a sandbox may ask for",      \
	  OPTION,       0,            "disk",   "how much it may write to disk")                                                  \
	X(a, inodes,       inodes,     COUNT64, 64,      UINT32_MAX, 200000,    10000000,   false,                                \
	  "inodes",     "inodes",     "most files and directories of a sandbox",     "most that a sandbox may ask for",           \
	  NO_OPTION,    0,            "",       "")                                                                               \
	X(a, pids,         pids,       COUNT,   2,       4194304,    256,       32768,      false,                                \
	  "pids",       "pids",       "most processes and threads of a sandbox",     "most that a sandbox may ask for",           \
	  OPTION,       0,            "pids",   "how many processes it may have at once")                                         \
	X(a, open_files,   open_files, COUNT,   16,      1048576,    4096,      1048576,    true,                                 \
	  "open_files", "open-files", "most open files of a process of a sandbox",   "most that a sandbox may ask for",           \
	  NO_OPTION,    0,            "",       "")

/* Limits of its execs. Their maximum, which is also the default, is in the settings `spool` and
 * `execs_max`. */
#define EXEC_LIMITS(X, a)                                                                                                         \
	X(a, output_bytes, output_mib, SIZE,    MIB) /* kept of each */                                                           \
	X(a, execs,        execs,      COUNT,   2)   /* kept, running ones among them */
/* clang-format on */

enum limit_kind { LIMIT_CPUS, LIMIT_SIZE, LIMIT_COUNT, LIMIT_COUNT64 };

/* clang-format off */
#define LIMIT_WIDE_CPUS(member)
#define LIMIT_WIDE_SIZE(member)                  uint64_t member;
#define LIMIT_WIDE_COUNT(member)
#define LIMIT_WIDE_COUNT64(member)               uint64_t member;
#define LIMIT_NARROW_CPUS(member)                uint32_t member;
#define LIMIT_NARROW_SIZE(member)
#define LIMIT_NARROW_COUNT(member)               uint32_t member;
#define LIMIT_NARROW_COUNT64(member)
#define LIMIT_WIDE(a, member, name, kind, ...)   LIMIT_WIDE_##kind(member)
#define LIMIT_NARROW(a, member, name, kind, ...) LIMIT_NARROW_##kind(member)
#define LIMIT_AT(a, member, ...)                 LIMIT_AT_##member,

struct guest_limits { /* requested limits; 0 = not given */
	GUEST_LIMITS(LIMIT_WIDE, )
	GUEST_LIMITS(LIMIT_NARROW, )
	uint32_t reserved;
};

struct exec_limits { /* 0 = the daemon's */
	EXEC_LIMITS(LIMIT_WIDE, )
	EXEC_LIMITS(LIMIT_NARROW, )
};

/* Indexes in the table: those of guests, then those of execs. */
enum limit_at {
	GUEST_LIMITS(LIMIT_AT, )
	GUEST_LIMITS_COUNT,
	BEFORE_EXEC_LIMITS = GUEST_LIMITS_COUNT - 1,
	EXEC_LIMITS(LIMIT_AT, )
	LIMITS_COUNT
};
/* clang-format on */

struct limit {
	const char *name;
	const char *row_name;
	const char *setting; /* NULL: of execs */
	enum limit_kind kind;
	uint64_t unit; /* of the member, that is 1 in the API */
	uint64_t least, usual, ceiling;
	bool is_fixed;
	size_t offset, size; /* in struct guest_limits or struct exec_limits */
};
extern const struct limit limit_table[LIMITS_COUNT];

/* limits: a struct guest_limits or struct exec_limits, depending on the row. */
uint64_t limit_get(const struct limit *l, const void *limits);
void limit_set(const struct limit *l, void *limits, uint64_t value);
/* The largest value that fits into the member and into JSON. */
uint64_t limit_most(const struct limit *l);

/* Fills limits that are not set from the other struct. */
void limits_fill(struct guest_limits *limits, const struct guest_limits *from);
bool limits_are_equal(const struct guest_limits *a, const struct guest_limits *b);
