// SPDX-License-Identifier: Apache-2.0
/*
 * The cgroup code on trees of plain files that are laid out as kernels of each kind lay them out.
 * What the kernel does by itself (making a group's files, refusing to remove a busy one) is shown
 * by the jail's own tests, on this host's real trees.
 */
#include "test.h"

#include "base/fd.h"
#include "engine/linux/cgroup.h"
#include "engine/linux/dir_tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ID "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char v2_mounts[] =
	"24 30 0:22 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
	"rw,nsdelegate,memory_recursiveprot\n";
static const char v1_mounts[] =
	"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
	"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
	"33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
	"34 31 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	"35 31 0:32 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
	"36 31 0:33 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
	"37 31 0:34 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n";
static const char unified_mount[] =
	"38 31 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

static char top[64];

static void make(const char *path, const char *text)
{
	char full[400];
	auto_fd int fd = -1;

	(void)snprintf(full, sizeof(full), "%s/sys/fs/cgroup/%s", top, path);
	for (char *p = full + strlen(top) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		(void)mkdir(full, 0755);
		*p = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
}

/* A group's files wherever the sandbox may have it. */
static void make_leaves(const char *tree, const char *file, const char *text)
{
	static const char *const leaves[] = {"", "/init", "/user"};
	char path[300];

	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++) {
		(void)snprintf(path, sizeof(path), "%sp/" ID "%s/%s", tree, leaves[i], file);
		make(path, text);
	}
}

static const char *in_group(const char *tree, const char *leaf, const char *file)
{
	static char text[256];
	char path[400];

	(void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup/%sp/" ID "/%s/%s", top, tree, leaf,
	               file);
	CHECK(fd_read_file(AT_FDCWD, path, text, sizeof(text)) >= 0);
	return text;
}

static const char *in_user(const char *tree, const char *file)
{
	return in_group(tree, "user", file);
}

static void make_v1(void)
{
	make_leaves("cpu,cpuacct/", "cpu.cfs_period_us", "");
	make_leaves("cpu,cpuacct/", "cpu.cfs_quota_us", "");
	make_leaves("cpu,cpuacct/", "cpu.shares", "1024\n");
	make_leaves("cpu,cpuacct/", "cpuacct.usage", "5000000\n");
	make_leaves("memory/", "memory.limit_in_bytes", "");
	make_leaves("memory/", "memory.memsw.limit_in_bytes", "");
	make_leaves("memory/", "memory.usage_in_bytes", "4096\n");
	make_leaves("memory/", "memory.max_usage_in_bytes", "8192\n");
	make_leaves("memory/", "memory.oom_control",
	            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	make_leaves("pids/", "pids.max", "");
	make_leaves("pids/", "pids.current", "7\n");
	make_leaves("freezer/", "freezer.state", "");
	make_leaves("cpu,cpuacct/", "cgroup.procs", "");
	make_leaves("memory/", "cgroup.procs", "");
	make_leaves("pids/", "cgroup.procs", "");
	make_leaves("freezer/", "cgroup.procs", "");
}

static void make_v2(const char *tree, const char *controllers)
{
	static const char *const dirs[] = {"", "p/", "p/" ID "/"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[200];

		(void)snprintf(path, sizeof(path), "%s%scgroup.controllers", tree, dirs[i]);
		make(path, controllers);
		(void)snprintf(path, sizeof(path), "%s%scgroup.subtree_control", tree, dirs[i]);
		make(path, "");
	}
	make_leaves(tree, "cgroup.procs", "");
	make_leaves(tree, "cgroup.freeze", "");
	make_leaves(tree, "cgroup.events", "populated 1\nfrozen 1\n");
	make_leaves(tree, "cpu.stat", "usage_usec 123\nuser_usec 100\nsystem_usec 23\n");
}

static void begin(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/test-cgroup.XXXXXX");
	CHECK(mkdtemp(top) != NULL);
}

static void finish(struct cgroup_host *h)
{
	cgroup_host_close(h);
	CHECK_INT(dir_tree_remove(AT_FDCWD, top), 0);
}

static const struct guest_limits limits = {
	.memory_bytes = 1 << 26, .cpu_milli = 1500, .pids = 64, .open_files = 256};

TEST(a_v2_host_gives_every_part_from_one_tree)
{
	struct guest_usage usage = {0};
	struct guest_shortage shortage = {0};
	struct cgroup_host h;
	struct err err = {0};
	int fds[CGROUP_TREES_MAX];

	begin();
	make_v2("", "cpuset cpu io memory hugetlb pids rdma misc\n");
	make_leaves("", "memory.max", "");
	make_leaves("", "memory.swap.max", "");
	make_leaves("", "memory.current", "4096\n");
	make_leaves("", "memory.peak", "8192\n");
	make_leaves("", "memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n");
	make_leaves("", "cpu.max", "");
	make_leaves("", "pids.max", "");
	make_leaves("", "pids.current", "7\n");
	CHECK_INT(cgroup_host_open(&h, top, v2_mounts, NULL, "p", &err), 0);
	CHECK_INT(h.n, 1);
	CHECK_INT(h.parts, BIT(CGROUP_PART_COUNT) - 1);
	CHECK_INT(cgroup_make(&h, ID, &limits, &err), 0);
	CHECK_STR(in_user("", "memory.max"), "67108864");
	CHECK_STR(in_user("", "memory.swap.max"), "0");
	CHECK_STR(in_user("", "cpu.max"), "150000 100000");
	CHECK_STR(in_user("", "pids.max"), "64");
	CHECK_INT(cgroup_freeze(&h, ID, true, &err), 0);
	CHECK_STR(in_user("", "cgroup.freeze"), "1");
	cgroup_usage(&h, ID, &usage);
	CHECK_INT(usage.cpu_ns, 123000);
	CHECK_INT(usage.memory_peak_bytes, 8192);
	CHECK_INT(usage.oom_kills, 1);
	cgroup_shortage(&h, ID, &shortage);
	CHECK_INT(shortage.oom_kills, 1);
	CHECK_INT(shortage.peak_bytes, 8192);
	CHECK_INT(shortage.limit_bytes, 192 << 20); /* the agent's own */
	CHECK_INT(cgroup_open_user(&h, ID, fds, &err), 1);
	(void)close(fds[0]);
	finish(&h);
}

TEST(a_v1_host_gives_each_part_from_its_tree)
{
	struct guest_usage usage = {0};
	struct guest_shortage shortage = {0};
	struct cgroup_host h;
	struct err err = {0};
	int fds[CGROUP_TREES_MAX];

	begin();
	make_v1();
	CHECK_INT(cgroup_host_open(&h, top, v1_mounts, NULL, "p", &err), 0);
	CHECK_INT(h.n, 4);
	CHECK_INT(h.parts, BIT(CGROUP_PART_COUNT) - 1);
	CHECK_INT(cgroup_make(&h, ID, &limits, &err), 0);
	CHECK_STR(in_user("memory/", "memory.limit_in_bytes"), "67108864");
	CHECK_STR(in_user("memory/", "memory.memsw.limit_in_bytes"), "67108864");
	CHECK_STR(in_user("cpu,cpuacct/", "cpu.cfs_quota_us"), "150000");
	CHECK_STR(in_user("pids/", "pids.max"), "64");
	CHECK_INT(cgroup_freeze(&h, ID, true, &err), 0);
	CHECK_STR(in_user("freezer/", "freezer.state"), "FROZEN");
	cgroup_shortage(&h, ID, &shortage);
	CHECK_INT(shortage.oom_kills, 3);
	CHECK_INT(shortage.peak_bytes, 8192);
	CHECK_INT(shortage.limit_bytes, (192 + 64) << 20); /* and what is below it */
	cgroup_usage(&h, ID, &usage);
	CHECK_INT(usage.cpu_ns, 5000000);
	CHECK_INT(usage.memory_bytes, 4096);
	CHECK_INT(usage.pids, 7);
	CHECK_INT(usage.oom_kills, 3);
	CHECK_INT(cgroup_open_user(&h, ID, fds, &err), 4);
	for (int i = 0; i < 4; i++)
		(void)close(fds[i]);
	CHECK_INT(cgroup_open_agent(&h, ID), -1);
	finish(&h);
}

TEST(the_agents_bounds_are_its_own_on_v2_and_around_the_sandbox_on_v1)
{
	struct guest_limits more = limits;
	struct cgroup_host h;
	struct err err = {0};

	begin();
	make_v1();
	CHECK_INT(cgroup_host_open(&h, top, v1_mounts, NULL, "p", &err), 0);
	CHECK_INT(cgroup_make(&h, ID, &limits, &err), 0);
	CHECK_STR(in_group("memory/", ".", "memory.limit_in_bytes"), "268435456"); /* 64 + 192 */
	CHECK_STR(in_group("pids/", ".", "pids.max"), "1088");
	more.pids = 100;
	CHECK_INT(cgroup_set_limits(&h, ID, &more, &err), 0);
	CHECK_STR(in_group("pids/", ".", "pids.max"), "1124");
	finish(&h);

	begin();
	make_v2("", "memory pids\n");
	make_leaves("", "memory.max", "");
	make_leaves("", "memory.swap.max", "");
	make_leaves("", "pids.max", "");
	CHECK_INT(cgroup_host_open(&h, top, v2_mounts, NULL, "p", &err), 0);
	CHECK_INT(cgroup_make(&h, ID, &limits, &err), 0);
	CHECK_STR(in_group("", "init", "memory.max"), "201326592");
	CHECK_STR(in_group("", "init", "pids.max"), "1024");
	CHECK_STR(in_group("", ".", "pids.max"), "");
	finish(&h);
}

TEST(a_weight_is_the_whole_sandboxes_and_means_the_same_on_v1_and_v2)
{
	static const struct {
		uint32_t weight;
		const char *v1, *v2;
	} cases[] = {{1024, "1024", "100"},
	             {8192, "8192", "800"},
	             {512, "512", "50"},
	             {0, "2", "1"},
	             {UINT32_C(1) << 20, "262144", "10000"}};
	struct cgroup_host v1, v2;
	struct err err = {0};

	begin();
	make_v1();
	CHECK_INT(cgroup_host_open(&v1, top, v1_mounts, NULL, "p", &err), 0);
	CHECK_INT(cgroup_cpu_ns(&v1, ID), 5000000);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make_leaves("cpu,cpuacct/", "cpu.shares", "");
		CHECK_INT(cgroup_set_weight(&v1, ID, cases[i].weight, &err), 0);
		CHECK_STR(in_group("cpu,cpuacct/", ".", "cpu.shares"), cases[i].v1);
		CHECK_STR(in_user("cpu,cpuacct/", "cpu.shares"), "");
	}
	finish(&v1);

	begin();
	make_v2("", "cpu memory pids\n");
	CHECK_INT(cgroup_host_open(&v2, top, v2_mounts, NULL, "p", &err), 0);
	CHECK_INT(cgroup_cpu_ns(&v2, ID), 123000);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make_leaves("", "cpu.weight", "");
		CHECK_INT(cgroup_set_weight(&v2, ID, cases[i].weight, &err), 0);
		CHECK_STR(in_group("", ".", "cpu.weight"), cases[i].v2);
		CHECK_STR(in_user("", "cpu.weight"), "");
	}
	finish(&v2);
}

TEST(the_weight_of_all_sandboxes_is_set_once_and_an_operators_stays)
{
	static const struct {
		const char *mounts, *tree, *file, *before, *after;
	} cases[] = {
		{v1_mounts, "cpu,cpuacct/", "cpu.shares", "1024", "4096"},
		{v1_mounts, "cpu,cpuacct/", "cpu.shares", "3000", "3000"},
		{v2_mounts, "", "cpu.weight", "100", "400"},
		{v2_mounts, "", "cpu.weight", "250", "250"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const bool is_v2 = cases[i].mounts == v2_mounts;
		struct cgroup_host h;
		struct err err = {0};
		char path[64];

		begin();
		if (is_v2)
			make_v2("", "cpu memory pids\n");
		else
			make_v1();
		CHECK_INT(cgroup_host_open(&h, top, cases[i].mounts, NULL, "p", &err), 0);
		CHECK_INT(cgroup_set_weight_of_all(&h, 4096, &err), 0); /* there is no such file */
		(void)snprintf(path, sizeof(path), "%sp/%s", cases[i].tree, cases[i].file);
		make(path, cases[i].before);
		CHECK_INT(cgroup_set_weight_of_all(&h, 4096, &err), 0);
		CHECK_STR(in_group(cases[i].tree, "..", cases[i].file), cases[i].after);
		CHECK_INT(cgroup_set_weight_of_all(&h, 8192, &err), 0);
		CHECK_STR(in_group(cases[i].tree, "..", cases[i].file), cases[i].after);
		finish(&h);
	}
}

TEST(a_hybrid_host_limits_by_v1_and_freezes_and_counts_by_v2)
{
	char mounts[sizeof(v1_mounts) + sizeof(unified_mount)];
	struct guest_usage usage = {0};
	struct cgroup_host h;
	struct err err = {0};
	int fd;

	begin();
	make_v1();
	make_v2("unified/", "\n");
	(void)snprintf(mounts, sizeof(mounts), "%s%s", v1_mounts, unified_mount);
	CHECK_INT(cgroup_host_open(&h, top, mounts, NULL, "p", &err), 0);
	CHECK_INT(h.n, 4); /* unified, cpu, memory, pids: the freezer's tree is not needed */
	CHECK_INT(h.parts, BIT(CGROUP_PART_COUNT) - 1);
	CHECK_INT(cgroup_make(&h, ID, &limits, &err), 0);
	CHECK_STR(in_user("memory/", "memory.limit_in_bytes"), "67108864");
	CHECK_INT(cgroup_freeze(&h, ID, true, &err), 0);
	CHECK_STR(in_user("unified/", "cgroup.freeze"), "1");
	cgroup_usage(&h, ID, &usage);
	CHECK_INT(usage.cpu_ns, 123000);
	fd = cgroup_open_agent(&h, ID);
	CHECK(fd >= 0);
	(void)close(fd);
	finish(&h);
}

static bool is_there(const char *group)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup/%s", top, group);
	return access(path, F_OK) == 0;
}

static void remove_group(const char *group)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup/%s", top, group);
	CHECK_INT(dir_tree_remove(AT_FDCWD, path), 0);
}

#define HOME "system.slice/cloche-sandboxes.service"

TEST(a_group_that_systemd_handed_over_is_the_home_of_all_others)
{
	struct cgroup_host h;
	struct err err = {0};

	begin();
	make("cgroup.controllers", "cpu memory pids\n");
	make("cgroup.subtree_control", "");
	CHECK_INT(cgroup_host_open(&h, top, v2_mounts, HOME, "p", &err), 0);
	CHECK(is_there("p")); /* no such unit */
	cgroup_host_close(&h);

	make(HOME "/cgroup.controllers", "cpu memory pids\n");
	make(HOME "/cgroup.subtree_control", "");
	make("p/" ID "/cgroup.procs", "");
	CHECK_INT(cgroup_host_open(&h, top, v2_mounts, HOME, "p", &err), 0);
	CHECK(!is_there(HOME "/p")); /* a sandbox from before the unit lives */
	cgroup_host_close(&h);

	remove_group("p/" ID);
	make(HOME "/cgroup.procs", "17\n"); /* no limits are possible below a process */
	CHECK_INT(cgroup_host_open(&h, top, v2_mounts, HOME, "p", &err), 0);
	CHECK(!is_there(HOME "/p"));
	cgroup_host_close(&h);

	make(HOME "/cgroup.procs", "");
	CHECK_INT(cgroup_host_open(&h, top, v2_mounts, HOME, "p", &err), 0);
	CHECK(is_there(HOME "/p"));
	CHECK(!is_there("p"));
	cgroup_host_remove(&h);
	CHECK(!is_there(HOME "/p"));
	CHECK(is_there(HOME));
	finish(&h);
}

TEST(a_missing_controller_is_a_missing_part_and_no_failure)
{
	struct cgroup_host h;
	struct err err = {0};

	begin();
	make_v2("", "cpu pids\n");
	make_leaves("", "cpu.max", "");
	make_leaves("", "pids.max", "");
	CHECK_INT(cgroup_host_open(&h, top, v2_mounts, NULL, "p", &err), 0);
	CHECK(!(h.parts & BIT(CGROUP_MEMORY)));
	CHECK(h.parts & BIT(CGROUP_PIDS));
	CHECK_INT(cgroup_make(&h, ID, &limits, &err), 0);
	finish(&h);
}

TEST(a_host_without_cgroups_has_no_parts)
{
	struct cgroup_host h;
	struct err err = {0};

	begin();
	CHECK_INT(cgroup_host_open(&h, top, "27 1 254:0 / / rw - ext4 /dev/vda rw\n", NULL, "p",
	                           &err),
	          0);
	CHECK_INT(h.parts, 0);
	CHECK_INT(cgroup_freeze(&h, ID, true, &err), -ENOSYS);
	finish(&h);
}
