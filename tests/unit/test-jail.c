// SPDX-License-Identifier: Apache-2.0
/* The jail engine's walls, limits and ways out, as a guest meets them. */
#include "jail-rig.h"

#include "base/fd.h"
#include "base/units.h"
#include "engine/guest/spawner_orphan.h"
#include "engine/linux/dir_tree.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		return false;
	print_error("has '%s':\n%s\n", part, text);
	return true;
}

TEST_FORKED(a_guest_sees_its_own_names_users_and_processes, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "user hostname; cat /etc/hostname; id -u; id -un; pwd"),
	          "bell\nbell\n1000\nuser\n/");
	CHECK_STR(jail_rig_say(g, "root id -u; cat /proc/self/uid_map | tr -s ' '"),
	          "0\n 0 805371904 65536");
	CHECK_STR(jail_rig_say(g, "user [ $(ls -d /proc/[0-9]* | wc -l) -lt 9 ] && echo few"),
	          "few");
	CHECK_STR(jail_rig_say(g, "user nproc; grep -c ^processor /proc/cpuinfo; cat "
	                          "/sys/devices/system/cpu/online"),
	          "1\n1\n0");
	CHECK_STR(jail_rig_say(g, "user grep MemTotal /proc/meminfo | tr -s ' '"),
	          "MemTotal: 131072 kB");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(no_path_of_the_host_shows_inside, 60)
{
	struct guest_spec spec;
	struct guest *g;
	const char *text;

	jail_rig_set_up(false);
	spec = jail_rig_spec(2);
	g = jail_rig_start(&spec);
	text = jail_rig_say(g, "user cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup");
	CHECK(!contains(text, jail_rig.top));
	CHECK(!contains(text, spec.id));
	CHECK(!contains(text, "/tmp/"));
	CHECK(strstr(text, " / / ") != NULL);
	CHECK_STR(jail_rig_say(g, "root ls -A /home /root /opt /srv /mnt"),
	          "/home:\nuser\n\n/mnt:\n\n/opt:\ncloche\n\n/root:\n.bashrc\n.profile\n\n/srv:");
	CHECK_STR(jail_rig_say(g, "user ls -m /dev"),
	          "fd, full, null, ptmx, pts, random, shm, stderr, stdin, stdout, tty, urandom,\n"
	          "zero");
	jail_rig_end(g);
	jail_rig_tear_down();
}

/* The shell could not open the file for writing: EROFS, EACCES, or a kernel that has none. */
static bool is_refused(const char *text)
{
	return strstr(text, "cannot create") != NULL;
}

TEST_FORKED(what_tells_of_the_host_is_covered, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(3);
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g,
	                       "root cat /proc/kcore /proc/keys /proc/timer_list /proc/kallsyms "
	                       "/proc/cmdline /proc/modules /proc/interrupts 2>/dev/null | wc -c; "
	                       "ls /proc/bus /proc/fs /proc/irq /proc/pressure | grep -v :; true"),
	          "0");
	CHECK(is_refused(jail_rig_say(g, "root echo x > /proc/sys/kernel/core_pattern")));
	CHECK(is_refused(jail_rig_say(g, "root echo x > /proc/sys/kernel/shmmax")));
	CHECK(is_refused(jail_rig_say(g, "root echo h > /proc/sysrq-trigger")));
	CHECK(is_refused(jail_rig_say(g, "root echo 1 > /proc/meminfo")));
	CHECK_STR(jail_rig_say(g, "root ls /sys /sys/fs"),
	          "/sys:\ndevices\nfs\nkernel\n\n/sys/fs:");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(the_agent_cannot_be_looked_into_from_inside, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(4);
	g = jail_rig_start(&spec);
	CHECK(strstr(jail_rig_say(g, "root cat /proc/1/environ"), "denied") != NULL);
	CHECK(strstr(jail_rig_say(g, "root head -c1 /proc/1/mem"), "denied") != NULL);
	CHECK(strstr(jail_rig_say(g, "root ls -l /proc/1/fd"), "denied") != NULL);
	CHECK(strstr(jail_rig_say(g, "root ls /proc/1/root/"), "denied") != NULL);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(rights_are_cut_to_what_was_promised, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(5);
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "user grep -E '^(CapEff|CapPrm|CapAmb|NoNewPrivs|Seccomp):' "
	                          "/proc/self/status"),
	          "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
	          "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2");
	/* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID NET_BIND_SERVICE SETFCAP */
	CHECK_STR(jail_rig_say(g, "root grep -E '^(CapEff|CapBnd):' /proc/self/status"),
	          "CapEff:\t00000000800004fb\nCapBnd:\t00000000800805fb");
	CHECK(strstr(jail_rig_say(g, "root mount -t tmpfs none /mnt"), "permission denied") !=
	      NULL);
	CHECK(strstr(jail_rig_say(g, "root unshare -U true"), "not permitted") != NULL);
	CHECK(strstr(jail_rig_say(g, "root chroot / true"), "not permitted") != NULL);
	CHECK(strstr(jail_rig_say(g, "root mknod /tmp/x c 1 3"), "not permitted") != NULL);
	CHECK_STR(jail_rig_say(g, "user ulimit -c; ulimit -r"), "0\n0");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(root_inside_changes_its_own_layer_only, 60)
{
	struct guest_spec spec;
	struct guest *a, *b;

	jail_rig_set_up(false);
	spec = jail_rig_spec(6);
	a = jail_rig_start(&spec);
	spec = jail_rig_spec(7);
	b = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(
			  a,
			  "root echo hello > /usr/hello && rm /usr/bin/true && touch /etc/x && "
			  "chown 1000 /etc/x && stat -c %u /etc/x && useradd -m bob && id -u bob"),
	          "1000\n1001");
	CHECK_STR(
		jail_rig_say(b, "root ls /usr/hello /usr/bin/true /etc/x 2>/dev/null; id bob 2>&1"),
		"/usr/bin/true\nid: 'bob': no such user");
	CHECK_INT(access("/usr/bin/true", X_OK), 0);
	CHECK_INT(access("/usr/hello", F_OK), -1);
	jail_rig_end(a);
	jail_rig_end(b);
	jail_rig_tear_down();
}

TEST_FORKED(the_disk_limit_ends_data_and_inodes_alike, 120)
{
	struct guest_spec spec;
	struct guest_usage usage;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(8);
	spec.limits.disk_bytes = 8 * MIB;
	g = jail_rig_start(&spec);
	CHECK(strstr(jail_rig_say(g,
	                          "user dd if=/dev/urandom of=/tmp/big bs=1M count=20 2>&1; sync"),
	             "quota exceeded") != NULL);
	CHECK_INT(jail_engine.usage(g, &usage, &jail_rig.err), 0);
	CHECK(usage.disk_bytes > 4 * MIB && usage.disk_bytes <= 8 * MIB);
	CHECK_STR(jail_rig_say(g, "user rm /tmp/big; sync; echo ok"), "ok");
	/* The first refusal ends the shell: each one costs btrfs a flush. */
	CHECK(strstr(jail_rig_say(g, "user cd /tmp; n=$(printf %0200d 0); i=0; while : > $n-$i; do "
	                             "i=$((i+1)); done"),
	             "quota exceeded") != NULL);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(memory_pids_and_files_end_at_their_limits_and_the_guest_lives, 60)
{
	struct guest_spec spec;
	struct guest_usage usage;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(9);
	g = jail_rig_start(&spec);
	if (!(jail_engine.isolation(jail_rig.host, NULL).walls & BIT(WALL_MEMORY_LIMIT)))
		SKIP("no memory cgroup on this host");
	CHECK_STR(
		jail_rig_say(
			g, "user (head -c 300m /dev/zero | tail | wc -c) 2>/dev/null; echo alive"),
		"0\nalive");
	CHECK_INT(jail_engine.usage(g, &usage, &jail_rig.err), 0);
	CHECK(usage.oom_kills >= 1);
	CHECK(usage.memory_peak_bytes > 100 * MIB && usage.memory_peak_bytes <= 128 * MIB);
	CHECK(usage.cpu_ns > 0);
	(void)jail_rig_say(
		g, "user i=0; while [ $i -lt 40 ]; do sleep 9 >/dev/null 2>&1 & i=$((i+1)); "
		   "done");
	CHECK_INT(jail_engine.usage(g, &usage, &jail_rig.err), 0);
	CHECK(usage.pids > 0 && usage.pids <= 32);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(limits_change_while_it_runs, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(10);
	g = jail_rig_start(&spec);
	spec.limits.memory_bytes = 256 * MIB;
	spec.limits.disk_bytes = 128 * MIB;
	CHECK_INT(jail_engine.set_limits(g, &spec.limits, &jail_rig.err), 0);
	CHECK_STR(jail_rig_say(g, "user grep MemTotal /proc/meminfo | tr -s ' '"),
	          "MemTotal: 262144 kB");
	CHECK_STR(jail_rig_say(
			  g,
			  "user dd if=/dev/zero of=/tmp/big bs=1M count=80 2>/dev/null; stat -c %s "
			  "/tmp/big"),
	          "83886080");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(its_network_is_a_loopback_of_its_own, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(11);
	g = jail_rig_start(&spec);
	CHECK_STR(
		jail_rig_say(
			g,
			"user grep -c : /proc/net/dev; grep -o ' *lo:' /proc/net/dev | tr -d ' '"),
		"1\nlo:");
	CHECK_STR(jail_rig_say(g, "user cat /proc/net/route | wc -l | tr -d ' '"), "1");
	jail_rig_end(g);
	jail_rig_tear_down();
}

static int freeze(struct guest *g)
{
	int r;

	while ((r = jail_engine.freeze(g, true, &jail_rig.err)) == 1)
		(void)sched_yield();
	return r;
}

TEST_FORKED(a_frozen_guest_stands_still_and_can_be_killed, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(12);
	g = jail_rig_start(&spec);
	(void)jail_rig_say(g, "user sleep 100 >/dev/null 2>&1 &");
	CHECK_INT(freeze(g), 0);
	CHECK_INT(jail_engine.freeze(g, false, &jail_rig.err), 0);
	CHECK_STR(jail_rig_say(g, "user echo awake"), "awake");
	(void)jail_rig_say(g, "user sleep 100 >/dev/null 2>&1 &");
	CHECK_INT(freeze(g), 0);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(an_end_of_the_first_process_is_told, 60)
{
	struct guest_spec spec;
	struct guest *g;
	auto_fd int fd = -1;

	jail_rig_set_up(false);
	spec = jail_rig_spec(13);
	g = jail_rig_start(&spec);
	CHECK_INT(jail_engine.connect(g, &fd, &jail_rig.err), 0);
	CHECK_INT(fd_write_all(fd, "exit 7", 6), 0);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK(jail_rig.is_ended);
	CHECK_INT(WEXITSTATUS(jail_rig.wait_status), 7);
	jail_rig_end(g);
	jail_rig_tear_down();
}

static void on_tick(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

/* Lets the loop turn until the sandbox's run directory, the last thing to go, is gone. */
static void wait_until_absent(const char *id)
{
	struct loop_timer *timer = loop_timer_new(jail_rig.loop, on_tick, NULL);
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/sandboxes/%s", jail_rig.run, id);
	while (access(path, F_OK) == 0) {
		loop_timer_set_in(timer, 1000);
		CHECK_INT(loop_run(jail_rig.loop), 0);
	}
	loop_timer_free(timer);
}

TEST_FORKED(a_failed_step_is_named_and_undone, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	jail_engine.leave(jail_rig.host);
	(void)close(jail_rig.agent_fd);
	jail_rig.agent_fd = memfd_create("agent", MFD_CLOEXEC);
	CHECK_INT(fd_write_all(jail_rig.agent_fd, "no program", 10), 0);
	jail_rig_probe();
	spec = jail_rig_spec(16);
	CHECK_INT(jail_engine.start(jail_rig.host, &spec, jail_rig_on_started, jail_rig_on_ended,
	                            NULL, &g, &jail_rig.err),
	          0);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK(jail_rig.is_failed);
	CHECK_STR(jail_rig.err.message, "jail step 'exec': execveat: Exec format error");
	jail_rig_tear_down();
}

static bool knows_nothing(const char *id, void *arg)
{
	(void)id;
	(void)arg;
	return false;
}

TEST_FORKED(the_next_broker_adopts_what_lives_and_sweeps_the_rest, 60)
{
	struct guest_spec kept, dead, seen;
	struct guest *g, *other;

	jail_rig_set_up(false);
	kept = jail_rig_spec(14);
	dead = jail_rig_spec(15);
	g = jail_rig_start(&kept);
	other = jail_rig_start(&dead);
	(void)jail_rig_say(other, "user sleep 100 >/dev/null 2>&1 &");
	(void)jail_rig_say(g, "user echo here > /tmp/mark");
	jail_engine.leave(jail_rig.host);

	/* As a broker of its own would, though these are still our children. */
	jail_rig_probe();
	CHECK_INT(jail_engine.adopt(jail_rig.host, kept.id, jail_rig_on_ended, NULL, &g, &seen,
	                            &jail_rig.err),
	          0);
	CHECK_INT(seen.slot, 14);
	CHECK_STR(jail_rig_say(g, "user cat /tmp/mark"), "here");
	jail_engine.sweep(jail_rig.host, knows_nothing, NULL);
	jail_rig_end(g);
	wait_until_absent(dead.id);
	jail_rig_tear_down();
}

static void count_kept(const char *id, uint64_t keeper, void *arg)
{
	(void)id;
	CHECK_INT(keeper, 77);
	(*(int *)arg)++;
}

static int kept(void)
{
	int n = 0;

	jail_engine.each_kept(jail_rig.host, count_kept, &n);
	return n;
}

static void keep_and_resume(bool is_plain)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(is_plain);
	spec = jail_rig_spec(60);
	spec.keeper = 77;
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g,
	                       "root echo here > /home/user/mark && chown 1000 /home/user/mark && "
	                       "chmod 640 /home/user/mark && rm /usr/bin/true"),
	          "");
	CHECK_STR(jail_rig_say(g, "root find / -xdev -name keeper"),
	          ""); /* the mark is out of sight */
	jail_rig_end(g);
	CHECK_INT(kept(), 1);
	spec.is_resumed = 1;
	g = jail_rig_start(&spec);
	jail_engine.leave(jail_rig.host);
	jail_rig_probe();
	jail_engine.sweep(jail_rig.host, knows_nothing, NULL);
	g = jail_rig_start(&spec); /* waits until what the sweep found is gone */
	CHECK_STR(jail_rig_say(g, "user cat /home/user/mark"), "here");
	jail_rig_end(g);
	/* The machine starts anew: nothing but the data directory stays. */
	jail_engine.leave(jail_rig.host);
	CHECK_INT(dir_tree_remove(AT_FDCWD, jail_rig.run), 0);
	CHECK_INT(mkdir(jail_rig.run, 0755), 0);
	jail_rig_probe();
	jail_engine.sweep(jail_rig.host, knows_nothing, NULL);
	CHECK_INT(kept(), 1);
	spec.slot = 61; /* another uid range: the layer does not care */
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "user cat /home/user/mark && stat -c '%a %u' /home/user/mark"),
	          "here\n640 1000");
	CHECK_STR(jail_rig_say(g, "user test -e /usr/bin/true || echo gone"), "gone");
	jail_rig_end(g);
	CHECK_INT(jail_engine.discard(jail_rig.host, spec.id, jail_rig_on_gone, NULL), 1);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK_INT(kept(), 0);
	CHECK_INT(jail_engine.discard(jail_rig.host, spec.id, jail_rig_on_gone, NULL), 0);
	jail_rig.is_failed = jail_engine.start(jail_rig.host, &spec, jail_rig_on_started,
	                                       jail_rig_on_ended, NULL, &g, &jail_rig.err) < 0;
	CHECK(jail_rig.is_failed);
	CHECK(strstr(jail_rig.err.message, "no files were kept") != NULL);
	wait_until_absent(spec.id);
	jail_rig_tear_down();
}

TEST_FORKED(a_kept_layer_outlives_guest_and_broker_and_is_started_over, 60)
{
	keep_and_resume(/* is_plain= */ false);
}

TEST_FORKED(a_plain_layer_is_kept_the_same_way, 60)
{
	keep_and_resume(/* is_plain= */ true);
}

TEST_FORKED(twenty_lives_leave_nothing_behind, 120)
{
	jail_rig_set_up(false);
	CHECK(strstr(jail_rig_on_host(), "layers") != NULL); /* it can tell */
	for (uint32_t i = 0; i < 20; i++) {
		struct guest_spec spec = jail_rig_spec(20 + i);
		struct guest *g = jail_rig_start(&spec);

		CHECK_STR(jail_rig_say(g, "user echo hi; sleep 100 >/dev/null 2>&1 &"), "hi");
		jail_rig_end(g);
	}
	jail_rig_tear_down();
}

TEST_FORKED(plain_storage_works_and_says_what_is_missing, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(true);
	CHECK(jail_engine.isolation(jail_rig.host, NULL).gaps & BIT(WALL_DISK_LIMIT));
	spec = jail_rig_spec(50);
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "user mkdir -p /tmp/a/b/c && echo deep > /tmp/a/b/c/d && cat "
	                          "/tmp/a/b/c/d"),
	          "deep");
	jail_rig_end(g);
	jail_rig_tear_down();
}

struct strays {
	struct list list;
	struct loop_timer *timer;
};

static void stop_when_none(struct loop *loop, void *arg)
{
	struct strays *strays = arg;

	if (list_empty(&strays->list))
		loop_stop(loop);
	else
		loop_timer_set_in(strays->timer, 1000);
}

static pid_t fork_into_group(pid_t group, unsigned ends_after_us)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)usleep(ends_after_us);
		_exit(0);
	}
	CHECK_INT(setpgid(pid, group), 0);
	return pid;
}

TEST_FORKED(children_that_a_dead_spawner_leaves_are_reaped, 60)
{
	struct strays strays;
	struct loop *loop;
	struct err err;
	pid_t group, other;

	CHECK_INT(loop_new(&loop, &err), 0);
	list_init(&strays.list);
	other = fork_into_group(0, 0);
	group = fork_into_group(0, 0);
	(void)fork_into_group(group, 50000);
	spawner_orphan_watch(&strays.list, loop, group);
	strays.timer = loop_timer_new(loop, stop_when_none, &strays);
	loop_timer_set_in(strays.timer, 0);
	CHECK_INT(loop_run(loop), 0);
	CHECK_INT(waitpid(-group, NULL, 0), -1);
	CHECK_INT(waitpid(other, NULL, 0), other); /* is not of that group, and so left alone */
	loop_timer_free(strays.timer);
	loop_free(loop);
}
