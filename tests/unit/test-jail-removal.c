// SPDX-License-Identifier: Apache-2.0
/* How a guest of the jail engine goes, when its events come late, together or at the wrong time. */
#include "jail-rig.h"

#include "engine/guest/guest.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GUESTS   5
#define FROZEN_S 3 /* longer than a first process may take to die (guest_removal.c) */

static struct {
	unsigned started, gone;
} told[GUESTS];
static unsigned n_awaited;

static void on_started(struct guest *g, const struct err *err, void *arg)
{
	(void)g;
	CHECK(err == NULL);
	told[(size_t)(uintptr_t)arg].started++;
	if (--n_awaited == 0)
		loop_stop(jail_rig.loop);
}

static void on_gone(void *arg)
{
	told[(size_t)(uintptr_t)arg].gone++;
	if (--n_awaited == 0)
		loop_stop(jail_rig.loop);
}

static void start_all(struct guest *guests[GUESTS], struct guest_spec specs[GUESTS])
{
	n_awaited = GUESTS;
	for (uint32_t i = 0; i < GUESTS; i++) {
		specs[i] = jail_rig_spec(i + 1);
		CHECK_INT(jail_engine.start(jail_rig.host, &specs[i], on_started, jail_rig_on_ended,
		                            (void *)(uintptr_t)i, &guests[i], &jail_rig.err),
		          0);
	}
	CHECK_INT(loop_run(jail_rig.loop), 0);
}

static void on_time(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

/* What is still armed would come now. */
static void run_for(uint64_t us)
{
	struct loop_timer *t = loop_timer_new(jail_rig.loop, on_time, NULL);

	loop_timer_set_in(t, us);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	loop_timer_free(t);
}

/* Nothing can be written to the layers until a child of ours lets it. */
static pid_t freeze_layers(void)
{
	char path[128];
	int fd;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/layers", jail_rig.data);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_INT(ioctl(fd, FIFREEZE, 0), 0);
	pid = fork();
	if (pid == 0) {
		(void)sleep(FROZEN_S);
		_exit(ioctl(fd, FITHAW, 0) == 0 ? 0 : 1);
	}
	(void)close(fd);
	return pid;
}

TEST_FORKED(on_a_disk_that_stands_still_each_guest_goes_once, 60)
{
	struct guest *guests[GUESTS];
	struct guest_spec specs[GUESTS];
	int status;
	pid_t pid;

	jail_rig_set_up(false);
	start_all(guests, specs);
	pid = freeze_layers();
	n_awaited = GUESTS;
	for (size_t i = 0; i < GUESTS; i++)
		jail_engine.kill(guests[i], on_gone, (void *)(uintptr_t)i);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	run_for(100000);
	for (size_t i = 0; i < GUESTS; i++) {
		CHECK_INT(told[i].started, 1);
		CHECK_INT(told[i].gone, 1);
		CHECK(!storage_has(&jail_rig.host->storage, specs[i].id));
	}
	CHECK(list_empty(&jail_rig.host->guests));
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	jail_rig_tear_down();
}

TEST_FORKED(a_guest_that_is_killed_while_it_starts_goes_once_and_is_not_told_as_started, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	n_awaited = 1;
	CHECK_INT(jail_engine.start(jail_rig.host, &spec, on_started, jail_rig_on_ended, NULL, &g,
	                            &jail_rig.err),
	          0);
	jail_engine.kill(g, on_gone, NULL);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	run_for(100000);
	CHECK_INT(told[0].started, 0);
	CHECK_INT(told[0].gone, 1);
	CHECK(!storage_has(&jail_rig.host->storage, spec.id));
	jail_rig_tear_down();
}

TEST_FORKED(a_guest_that_is_killed_while_its_last_life_is_cleared_away_waits_for_that, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	spec.keeper = 7;
	jail_rig_end(jail_rig_start(&spec));
	guest_remove_found(jail_rig.host, spec.id); /* of which its layer is kept */
	spec.is_resumed = true;
	CHECK_INT(jail_engine.start(jail_rig.host, &spec, on_started, jail_rig_on_ended, NULL, &g,
	                            &jail_rig.err),
	          0);
	CHECK_INT(g->state, GUEST_WAITING);
	n_awaited = 1;
	jail_engine.kill(g, on_gone, NULL);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	run_for(100000);
	CHECK_INT(told[0].started, 0);
	CHECK_INT(told[0].gone, 1);
	CHECK(storage_has(&jail_rig.host->storage, spec.id));
	n_awaited = 1;
	CHECK_INT(jail_engine.discard(jail_rig.host, spec.id, on_gone, NULL), 1);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK(!storage_has(&jail_rig.host->storage, spec.id));
	jail_rig_tear_down();
}

/* A sandbox that was paused to disk keeps no layer: its snapshot has all of it. */
TEST_FORKED(a_guest_without_a_kept_layer_waits_too_until_its_last_life_is_cleared_away, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	guest_remove_found(jail_rig.host, spec.id);
	n_awaited = 1;
	CHECK_INT(jail_engine.start(jail_rig.host, &spec, on_started, jail_rig_on_ended, NULL, &g,
	                            &jail_rig.err),
	          0);
	CHECK_INT(g->state, GUEST_WAITING);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK_INT(told[0].started, 1);
	n_awaited = 1;
	jail_engine.kill(g, on_gone, NULL);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK(!storage_has(&jail_rig.host->storage, spec.id));
	jail_rig_tear_down();
}

TEST_FORKED(a_word_to_discard_that_comes_during_a_removal_takes_the_kept_layer, 60)
{
	struct guest_spec spec;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	spec.keeper = 7;
	jail_rig_end(jail_rig_start(&spec));
	guest_remove_found(jail_rig.host, spec.id);
	n_awaited = 1;
	CHECK_INT(jail_engine.discard(jail_rig.host, spec.id, on_gone, NULL), 1);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK_INT(told[0].gone, 1);
	CHECK(!storage_has(&jail_rig.host->storage, spec.id));
	CHECK(list_empty(&jail_rig.host->guests));
	jail_rig_tear_down();
}
