// SPDX-License-Identifier: Apache-2.0
/* Snapshots of jails: what is in them, what is started from them, and what a kill leaves of them.
 */
#include "jail-rig.h"

#include "engine/guest/guest.h"
#include "engine/layer/snapshot_manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	struct snapshot_info info;
	struct err err;
	int n_ends;
} taken;

static void on_taken(const struct snapshot_info *info, const struct err *err, void *arg)
{
	(void)arg;
	taken.n_ends++;
	if (info)
		taken.info = *info;
	else
		taken.err = *err;
	loop_stop(jail_rig.loop);
}

static int ask(const struct guest_spec *of, struct snapshot_spec *spec)
{
	memset(&taken, 0, sizeof(taken));
	spec->keeper = 77;
	id_make(spec->id, "sn");
	return jail_engine.snapshot(jail_rig.host, of->id, &of->image, spec, on_taken, NULL,
	                            &jail_rig.err);
}

static const char *take_as(const struct guest_spec *of, bool is_brief)
{
	static struct snapshot_spec spec;

	spec = (struct snapshot_spec){.is_brief = is_brief};
	CHECK_INT(ask(of, &spec), 0);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	if (taken.err.code != ERR_NONE)
		print_error("%s\n", taken.err.message);
	CHECK_INT(taken.err.code, ERR_NONE);
	CHECK_INT(taken.n_ends, 1);
	CHECK_STR(taken.info.id, spec.id);
	return spec.id;
}

static const char *take(const struct guest_spec *of)
{
	return take_as(of, /* is_brief= */ false);
}

static struct guest_spec spec_from(const char *snapshot, uint32_t slot)
{
	struct guest_spec spec = jail_rig_spec(slot);

	(void)snprintf(spec.snapshot, sizeof(spec.snapshot), "%s", snapshot);
	return spec;
}

static void discard(const char *id)
{
	if (jail_engine.discard_snapshot(jail_rig.host, id, jail_rig_on_gone, NULL) == 1)
		CHECK_INT(loop_run(jail_rig.loop), 0);
}

/* What lies beside the layers and is no sandbox's. */
static const char *disk_snapshots(void)
{
	auto_free char *command = xasprintf(
		"ls %s/layers | grep -Ev '^(sb_|aside[.])' | sed 's/_[a-z2-9]*/_/'", jail_rig.data);

	return jail_rig_host_says(command);
}

static void count(const struct snapshot_info *info, void *arg)
{
	(void)info;
	++*(int *)arg;
}

static int n_known(void)
{
	int n = 0;

	jail_engine.each_snapshot(jail_rig.host, count, &n);
	return n;
}

static bool knows_nothing(const char *id, void *arg)
{
	(void)id;
	(void)arg;
	return false;
}

TEST_FORKED(a_guest_from_a_snapshot_has_the_files_and_goes_its_own_way, 60)
{
	struct guest_spec spec, copy;
	struct guest *g, *other;
	const char *id;

	jail_rig_set_up(/* is_plain= */ false);
	spec = jail_rig_spec(1);
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "root echo a > /tmp/a; rm /etc/issue; echo u > /usr/u"), "");
	id = take(&spec);
	CHECK(taken.info.bytes > 0);
	CHECK_STR(jail_rig_say(g, "root echo b > /tmp/a; cat /tmp/a"), "b");
	copy = spec_from(id, 2);
	other = jail_rig_start(&copy);
	CHECK_STR(jail_rig_say(other, "root cat /tmp/a /usr/u; ls /etc/issue 2>/dev/null; "
	                              "echo c >> /tmp/a"),
	          "a\nu");
	CHECK_STR(jail_rig_say(g, "user cat /tmp/a"), "b");
	discard(id);
	CHECK_STR(jail_rig_say(other, "user cat /tmp/a"), "a\nc");
	CHECK_STR(disk_snapshots(), "");
	jail_rig_end(g);
	jail_rig_end(other);
	jail_rig_tear_down();
}

/* Of a snapshot that is tidy already, each copy is made by a child in the broker's memory. */
TEST_FORKED(the_copies_of_a_fork_are_whole_and_leave_no_place_behind, 60)
{
	enum { COPIES = 3 };
	struct guest *guests[COPIES + 1];
	struct guest_spec spec, copy;
	const char *id;

	jail_rig_set_up(/* is_plain= */ false);
	spec = jail_rig_spec(1);
	guests[COPIES] = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(guests[COPIES], "root echo a > /tmp/a; echo u > /usr/u"), "");
	id = take_as(&spec, /* is_brief= */ true);
	for (uint32_t i = 0; i < COPIES; i++) {
		auto_free char *below = NULL;

		copy = spec_from(id, 2 + i);
		guests[i] = jail_rig_start(&copy);
		CHECK_STR(jail_rig_say(guests[i], "root cat /tmp/a /usr/u; echo b > /tmp/a"),
		          "a\nu");
		below = xasprintf("stat -c %%s:%%a %s/layers/%s/below", jail_rig.data, copy.id);
		CHECK_STR(jail_rig_host_says(below), "16:600\n");
	}
	CHECK_STR(jail_rig_say(guests[COPIES], "user cat /tmp/a"), "a");
	CHECK_STR(disk_snapshots(), "sn_\n");
	discard(id);
	CHECK_STR(disk_snapshots(), "");
	for (size_t i = 0; i <= COPIES; i++)
		jail_rig_end(guests[i]);
	jail_rig_tear_down();
}

TEST_FORKED(a_layer_that_was_kept_is_replaced_in_one_step, 60)
{
	struct guest_spec spec;
	struct guest *g;
	const char *id;

	jail_rig_set_up(/* is_plain= */ false);
	spec = jail_rig_spec(1);
	spec.keeper = 77;
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "root echo a > /tmp/a"), "");
	id = take(&spec);
	CHECK_STR(jail_rig_say(g, "root echo b > /tmp/a; echo b > /tmp/b"), "");
	jail_rig_end(g);
	spec.is_resumed = 1;
	memcpy(spec.snapshot, id, sizeof(spec.snapshot));
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "user cat /tmp/a; ls /tmp/b 2>/dev/null"), "a");
	CHECK_STR(disk_snapshots(), "sn_\n");
	jail_rig_end(g);
	discard(id);
	CHECK_INT(jail_engine.discard(jail_rig.host, spec.id, jail_rig_on_gone, NULL), 1);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	jail_rig_tear_down();
}

TEST_FORKED(what_a_broker_left_half_done_goes_and_what_was_done_is_known, 60)
{
	auto_free char *halves = NULL;
	struct guest_spec spec, copy;
	struct snapshot_spec asked = {0};
	struct guest *g;
	const char *id;

	jail_rig_set_up(/* is_plain= */ false);
	spec = jail_rig_spec(1);
	g = jail_rig_start(&spec);
	id = take(&spec);
	CHECK_INT(ask(&spec, &asked), 0);
	jail_engine.leave(jail_rig.host); /* in the middle of it, frozen perhaps */
	halves = xasprintf("cd %s/layers && mkdir sn_aaaaaaaaaaaaaaaaaaaaaaaaaa.new "
	                   "sn_bbbbbbbbbbbbbbbbbbbbbbbbbb.gone roll_cccccccccccccccccccccccccc "
	                   "roll_dddddddddddddddddddddddddd && "
	                   "for i in roll_cccccccccccccccccccccccccc/files "
	                   "sn_aaaaaaaaaaaaaaaaaaaaaaaaaa.new/files; do "
	                   "btrfs -q subvolume create $i; done && "
	                   "touch %s/sandboxes/%s/snapshot",
	                   jail_rig.data, jail_rig.run, spec.id);
	(void)jail_rig_host_says(halves);
	jail_rig_probe();
	CHECK_INT(jail_engine.adopt(jail_rig.host, spec.id, jail_rig_on_ended, NULL, &g, &spec,
	                            &jail_rig.err),
	          0);
	jail_engine.sweep(jail_rig.host, knows_nothing, NULL);
	CHECK_STR(disk_snapshots(), "sn_\n");
	CHECK_INT(n_known(), 1);
	CHECK_STR(jail_rig_say(g, "user echo awake"), "awake");
	copy = spec_from(id, 2);
	jail_rig_end(jail_rig_start(&copy));
	jail_rig_end(g);
	discard(id);
	jail_rig_tear_down();
}

static int start_fails(const struct guest_spec *spec)
{
	struct guest *g;

	return jail_engine.start(jail_rig.host, spec, jail_rig_on_started, jail_rig_on_ended, NULL,
	                         &g, &jail_rig.err);
}

TEST_FORKED(a_manifest_that_is_not_whole_is_refused, 60)
{
	/* A flipped bit in each part, a cut, nothing at all, another's. */
	static const char *const harms[] = {
		"printf X | dd of=m bs=1 seek=0 conv=notrunc 2>/dev/null",
		"printf X | dd of=m bs=1 seek=4 conv=notrunc 2>/dev/null",
		"printf X | dd of=m bs=1 seek=100 conv=notrunc 2>/dev/null",
		"printf X | dd of=m bs=1 seek=$(($(stat -c %s m) - 1)) conv=notrunc 2>/dev/null",
		"truncate -s -1 m",
		": > m",
		"rm m",
	};
	struct guest_spec spec, copy;
	const char *id;
	struct guest *g;

	jail_rig_set_up(/* is_plain= */ false);
	spec = jail_rig_spec(1);
	g = jail_rig_start(&spec);
	for (size_t i = 0; i < ARRAY_SIZE(harms); i++) {
		auto_free char *command = NULL;

		id = take(&spec);
		copy = spec_from(id, 2);
		command = xasprintf(
			"cd %s/layers/%s && mv manifest m && chmod 600 m && { %s; }; mv m "
			"manifest 2>/dev/null",
			jail_rig.data, id, harms[i]);
		(void)jail_rig_host_says(command);
		jail_engine.leave(jail_rig.host);
		jail_rig_probe();
		CHECK_INT(jail_engine.adopt(jail_rig.host, spec.id, jail_rig_on_ended, NULL, &g,
		                            &spec, &jail_rig.err),
		          0);
		CHECK_INT(n_known(), 0);
		CHECK(start_fails(&copy) < 0);
		CHECK_INT(jail_rig.err.code, ERR_NOT_FOUND);
		discard(id);
		CHECK_STR(disk_snapshots(), "");
	}
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(what_cannot_be_saved_is_refused_by_name, 60)
{
	struct snapshot_spec asked = {0};
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(/* is_plain= */ true);
	spec = jail_rig_spec(1);
	g = jail_rig_start(&spec);
	CHECK(ask(&spec, &asked) < 0);
	CHECK_INT(jail_rig.err.code, ERR_UNSUPPORTED);
	jail_rig_end(g);
	jail_rig_tear_down();
	jail_rig_set_up(/* is_plain= */ false);
	CHECK(ask(&spec, &asked) < 0);
	CHECK_INT(jail_rig.err.code, ERR_NOT_FOUND);
	jail_rig_tear_down();
}
