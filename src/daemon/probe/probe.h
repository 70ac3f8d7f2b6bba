// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Finds out what this host can do, by trying it where that leaves no trace: in a child with its own
 * namespaces, or with a call whose error tells enough. Used by `cloche doctor`.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

#define PROBE_DETAIL_SIZE 640

/* Whether it is there; detail says what was found, or what prevents it. */
typedef bool (*probe_fn)(char detail[PROBE_DETAIL_SIZE]);

/* Kernel */
bool probe_kernel(char *detail);
bool probe_clone3(char *detail);
bool probe_pidfd(char *detail);
bool probe_openat2(char *detail);
bool probe_seccomp(char *detail);
bool probe_landlock(char *detail);
bool probe_userns(char *detail);
bool probe_overlay(char *detail);
/* Says how an attempt with a user namespace ended (errno, 0: well), and which settings below
 * proc_sys, usually /proc/sys, restrict them. */
void probe_explain_userns(const char *proc_sys, int errnum, char *detail);
bool probe_idmap(char *detail);
bool probe_nftables(char *detail);

/* Host */
bool probe_root(char *detail);
bool probe_cgroups(char *detail);
bool probe_cgroup_memory(char *detail);
bool probe_cgroup_cpu(char *detail);
bool probe_cgroup_pids(char *detail);
bool probe_cgroup_freezer(char *detail);
bool probe_btrfs(char *detail);
bool probe_mkfs_btrfs(char *detail);
bool probe_loop(char *detail);
bool probe_kvm(char *detail);
bool probe_qemu(char *detail);
bool probe_guest_kernel(char *detail); /* of the daemon on the usual data directory */
bool probe_criu(char *detail);
bool probe_cpu_flaws(char *detail);
bool probe_user(char *detail);
bool probe_daemon(char *detail);

/* Kernel, for so many sandboxes at once */
bool probe_kernel_limits(uint32_t sandboxes, char *detail);
