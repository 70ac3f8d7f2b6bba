// SPDX-License-Identifier: Apache-2.0
/* `cloche doctor`: a table of what a host can have, what each is for, and how to get it. */
#include "base/clock.h"
#include "base/json/json.h"
#include "base/units.h"
#include "daemon/config/config.h"
#include "daemon/config/quantity.h"
#include "daemon/daemon.h"
#include "daemon/probe/probe.h"

#include <inttypes.h>

#include <stdio.h>
#include <string.h>

enum weight {
	WEIGHT_NEEDED, /* no jail without it */
	WEIGHT_WANTED, /* without it a wall or a limit is missing, and said so in `gaps` */
	WEIGHT_EXTRA,  /* for a feature of its own */
};
static const char *const weight_names[] = {"needed", "wanted", "extra"};

struct check {
	const char *name;
	enum weight weight;
	probe_fn probe; /* NULL: probe_kernel_limits() */
	const char *purpose;
	const char *remedy;
};

/* clang-format off */
static const struct check checks[] = {
	{"root", WEIGHT_NEEDED, probe_root, "the daemon makes namespaces and mounts", "sudo cloche doctor"},
	{"kernel", WEIGHT_NEEDED, probe_kernel, "5.19 or newer: overlays over idmapped layers", "apt-get install -t bookworm-backports linux-image-amd64, then reboot"},
	{"clone3", WEIGHT_NEEDED, probe_clone3, "starts a sandbox in its namespaces at once", "a newer kernel, or a container runtime that allows clone3"},
	{"pidfd", WEIGHT_NEEDED, probe_pidfd, "watches and kills without mistaking a process", "a newer kernel"},
	{"openat2", WEIGHT_NEEDED, probe_openat2, "opens paths that cannot lead out", "a newer kernel"},
	{"user_namespaces", WEIGHT_NEEDED, probe_userns, "root inside is nobody outside", "sysctl -w user.max_user_namespaces=65536; on Ubuntu, in a container: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 on its host"},
	{"overlayfs_in_userns", WEIGHT_NEEDED, probe_overlay, "a sandbox's root over the template", "modprobe overlay"},
	{"idmapped_mounts", WEIGHT_NEEDED, probe_idmap, "layers fit any sandbox's uid range", "a newer kernel, and /usr on ext4, xfs or btrfs"},
	{"seccomp", WEIGHT_NEEDED, probe_seccomp, "the list of system calls allowed inside", "a kernel with CONFIG_SECCOMP_FILTER"},
	{"cgroups", WEIGHT_WANTED, probe_cgroups, "limits and usage", "mount -t cgroup2 none /sys/fs/cgroup"},
	{"cgroup_memory", WEIGHT_WANTED, probe_cgroup_memory, "the memory limit", "boot with cgroup_enable=memory"},
	{"cgroup_cpu", WEIGHT_WANTED, probe_cgroup_cpu, "the CPU limit", "enable the cpu controller in the root of the cgroup tree"},
	{"cgroup_pids", WEIGHT_WANTED, probe_cgroup_pids, "the limit on processes", "enable the pids controller in the root of the cgroup tree"},
	{"cgroup_freezer", WEIGHT_WANTED, probe_cgroup_freezer, "freezing a sandbox", "mount -t cgroup2 none /sys/fs/cgroup/unified"},
	{"btrfs", WEIGHT_WANTED, probe_btrfs, "the disk limit; without it: --plain-storage", "modprobe btrfs"},
	{"mkfs_btrfs", WEIGHT_WANTED, probe_mkfs_btrfs, "makes the layers' disk where the data directory is not btrfs", "apt-get install btrfs-progs"},
	{"loop_devices", WEIGHT_WANTED, probe_loop, "the same", "modprobe loop"},
	{"cloche_user", WEIGHT_WANTED, probe_user, "who the gateway runs as", "useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin cloche"},
	{"cpu_flaws", WEIGHT_WANTED, probe_cpu_flaws, "a jail shares CPU and kernel with the host", "a newer kernel and microcode: apt-get install intel-microcode or amd64-microcode"},
	{"kernel_limits", WEIGHT_EXTRA, NULL, "no sandbox uses up what the kernel has for all", "sysctl -w NAME=VALUE for each of these; a file in /etc/sysctl.d keeps them"},
	{"landlock", WEIGHT_EXTRA, probe_landlock, "a second wall round helpers", "boot with lsm=landlock,…"},
	{"nftables", WEIGHT_EXTRA, probe_nftables, "network policies", "modprobe -a nf_tables nft_chain_nat nft_ct nft_redir nft_limit"},
	{"kvm", WEIGHT_EXTRA, probe_kvm, "microVMs with a hardware wall", "modprobe kvm_intel or kvm_amd; in a VM, turn on nested virtualisation"},
	{"qemu", WEIGHT_EXTRA, probe_qemu, "microVMs", "apt-get install --no-install-recommends qemu-system-x86 (or qemu-system-arm)"},
	{"guest_kernel", WEIGHT_EXTRA, probe_guest_kernel, "microVMs: what they boot", "cloche template build kernel"},
	{"criu", WEIGHT_EXTRA, probe_criu, "memory snapshots of jails", "apt-get install criu"},
	{"daemon", WEIGHT_EXTRA, probe_daemon, "is one running here?", "cloche serve, or systemctl start cloche"},
};
/* clang-format on */

/* A check that only a running daemon can answer. */
static const struct check warm_check = {
	.name = "warm_copies",
	.weight = WEIGHT_EXTRA,
	.purpose = "microVMs: they start from these instead of booting",
	.remedy = "cloche run --engine vm: the first of a template and size has one made",
};

struct finding {
	bool is_there;
	char detail[PROBE_DETAIL_SIZE];
};

/* By the settings in the usual file. */
static uint32_t count_sandboxes(void)
{
	char *argv[] = {unconst("serve"), NULL};
	struct config config;
	struct err ignored;
	uint32_t n;

	config_init(&config);
	(void)!config_load(&config, 1, argv, &ignored); /* else what it has said so far holds */
	n = config.sandboxes_max;
	config_done(&config);
	return n;
}

static bool examine(struct finding *findings, uint32_t sandboxes)
{
	bool can_run = true;

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		findings[i].is_there = checks[i].probe
		                               ? checks[i].probe(findings[i].detail)
		                               : probe_kernel_limits(sandboxes, findings[i].detail);
		if (!findings[i].is_there && checks[i].weight == WEIGHT_NEEDED)
			can_run = false;
	}
	return can_run;
}

static void find_warm(const struct doctor_word *word, struct finding *ret)
{
	ret->is_there = word->warm_copies > 0;
	(void)snprintf(ret->detail, sizeof(ret->detail), "%" PRIu64 ", of %" PRIu64 " templates",
	               word->warm_copies, word->templates);
}

static void put_check(struct json_writer *w, const struct check *c, const struct finding *f)
{
	json_open_object(w, NULL);
	json_put_str(w, "name", c->name);
	json_put_bool(w, "present", f->is_there);
	json_put_str(w, "weight", weight_names[c->weight]);
	json_put_str(w, "purpose", c->purpose);
	json_put_str(w, "detail", f->detail);
	if (!f->is_there)
		json_put_str(w, "remedy", c->remedy);
	json_close_object(w);
}

static void put_problems(struct json_writer *w, const struct doctor_word *word)
{
	json_open_array(w, "problems");
	for (size_t i = 0; i < word->n_problems; i++) {
		json_open_object(w, NULL);
		json_put_str(w, "code", word->problems[i].code);
		json_put_str(w, "message", word->problems[i].message);
		json_put_str(w, "hint", word->problems[i].hint);
		json_close_object(w);
	}
	json_close_array(w);
}

static void put_builds(struct json_writer *w, const struct doctor_word *word)
{
	json_open_array(w, "builds");
	for (size_t i = 0; i < word->n_builds; i++) {
		json_open_object(w, NULL);
		json_put_str(w, "name", word->builds[i].name);
		json_put_str(w, "progress", word->builds[i].progress);
		json_close_object(w);
	}
	json_close_array(w);
}

/* warm and word are NULL without a running daemon. */
static int put_json(const struct finding *findings, const struct finding *warm,
                    const struct doctor_word *word, bool can_run, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_str(&w, "version", CLOCHE_VERSION);
	json_put_u64(&w, "checked_us", clock_wall_us());
	json_put_bool(&w, "jail", can_run);
	json_open_array(&w, "checks");
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		put_check(&w, &checks[i], &findings[i]);
	if (warm)
		put_check(&w, &warm_check, warm);
	json_close_array(&w);
	if (word) {
		json_open_object(&w, "default_engine");
		json_put_str(&w, "engine", word->engine);
		json_put_str(&w, "reason", word->engine_reason);
		json_close_object(&w);
		put_problems(&w, word);
		put_builds(&w, word);
	}
	json_close_object(&w);
	return json_writer_end(&w);
}

static void print_json(const struct finding *findings, const struct finding *warm,
                       const struct doctor_word *word, bool can_run)
{
	auto_call(buf_done) struct buf out = BUF_INIT(64 * KIB);

	if (put_json(findings, warm, word, can_run, &out) == 0)
		(void)printf("%s\n", buf_str(&out));
}

static void print_check(const struct check *c, const struct finding *f)
{
	const char *mark = f->is_there                  ? "ok"
	                   : c->weight == WEIGHT_NEEDED ? "NEEDED"
	                   : c->weight == WEIGHT_WANTED ? "gap"
	                                                : "-";

	(void)printf("%-7s %-20s %s\n", mark, c->name, f->detail);
	if (!f->is_there)
		(void)printf("%-7s %-20s for: %s\n%-7s %-20s get it: %s\n", "", "", c->purpose, "",
		             "", c->remedy);
}

static void print_problems(const struct doctor_word *word)
{
	for (size_t i = 0; i < word->n_problems; i++)
		(void)printf("%-7s %-20s %s\n%-7s %-20s do: %s\n", "PROBLEM",
		             word->problems[i].code, word->problems[i].message, "", "",
		             word->problems[i].hint);
}

static void print_builds(const struct doctor_word *word)
{
	for (size_t i = 0; i < word->n_builds; i++)
		(void)printf("%-7s %-20s is being built: %s\n", "coming", word->builds[i].name,
		             word->builds[i].progress);
}

static void print_engine(const struct doctor_word *word)
{
	(void)printf("%-7s %-20s %s: %s\n", "ok", "default_engine", word->engine,
	             word->engine_reason);
}

static void print_table(const struct finding *findings, const struct finding *warm,
                        const struct doctor_word *word, bool can_run)
{
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		print_check(&checks[i], &findings[i]);
	if (word) {
		print_check(&warm_check, warm);
		print_engine(word);
		print_builds(word);
		print_problems(word);
	}
	(void)printf("\n%s\n", can_run ? "This host can run jails."
	                               : "This host cannot run jails: see NEEDED above.");
	if (word && !word->is_ready)
		(void)printf("The daemon takes no new work: see PROBLEM above.\n");
}

char *doctor_json(uint32_t sandboxes)
{
	struct finding findings[ARRAY_SIZE(checks)] = {0};
	auto_call(buf_done) struct buf out = BUF_INIT(64 * KIB);
	bool can_run;

	(void)fflush(NULL); /* the probes fork */
	can_run = examine(findings, sandboxes);
	return put_json(findings, NULL, NULL, can_run, &out) == 0 ? xstrdup(buf_str(&out)) : NULL;
}

int doctor_run(bool json, const struct doctor_word *word)
{
	struct finding findings[ARRAY_SIZE(checks)] = {0}, warm = {0};
	bool can_run;

	(void)fflush(NULL); /* the probes fork */
	can_run = examine(findings, count_sandboxes());
	if (word)
		find_warm(word, &warm);
	if (json)
		print_json(findings, &warm, word, can_run);
	else
		print_table(findings, &warm, word, can_run);
	return can_run && (!word || word->is_ready) ? 0 : 1;
}
