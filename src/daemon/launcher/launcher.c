// SPDX-License-Identifier: Apache-2.0
/*
 * Broker and gateway live and die together: each sees the end of the other as the end of the socket
 * between them. The launcher waits until all are gone, then starts them again. Wall and dialer end
 * with them too. But if one of these dies alone, for example because of hostile bytes from outside,
 * only that one is started again, and the gateway gets its new socket over the control socket.
 *
 *	starting --> up --+--> falling (one died, the other ends too) --> resting --> starting
 *	   |              +--> stopping (asked to) --> done
 *	   +--> done: a pair that was never up is not tried again; a person must see its error
 *
 * SIGHUP brings new settings in the same way: if they can be read, gateway and broker shut down
 * cleanly, and new ones take over sandboxes and listeners (up --> reloading --> starting). If they
 * do not start with the new settings, the old ones are used again.
 *
 * Pairs that die soon after their start are started again after growing pauses, and then given up,
 * so that an error in the data does not become a busy loop. A pair that was up and was then killed
 * by SIGKILL does not count: that was an operator, or the kernel short of memory.
 *
 * A part that is stuck, because it was stopped or spins, is killed and so replaced (watchdog.h).
 * The gateway is told what was replaced and why, and writes it to the event log.
 */
#include "daemon/launcher/launcher.h"

#include "base/fd.h"
#include "daemon/confine/confine.h"
#include "daemon/launcher/launcher_private.h"
#include "daemon/notify.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define STOP_MAX_US     (60 * SECOND_US) /* --rm deletes many sandboxes, each may take a second */
#define STOP_AGAIN_US   SECOND_US        /* two signals of one request come closer together */
#define FALL_MAX_US     (15 * SECOND_US) /* beyond the broker's own patience */
#define QUICK_LIFE_US   (10 * SECOND_US)
#define QUICK_LIVES_MAX 5
#define REST_US         (SECOND_US / 10) /* doubled with each quick life */
#define ALONE_REST_US   (SECOND_US / 5)  /* doubled with each that follows soon */
#define ALONE_MOST_US   (10 * SECOND_US)

const struct role_row launcher_roles[ROLE_COUNT] = {
	[ROLE_BROKER] = {"broker", CHILD_BROKER, false},
	[ROLE_DIALER] = {"dialer", CHILD_DIALER, true},
	[ROLE_WALL] = {"wall", CHILD_WALL, true},
	[ROLE_MEMBER] = {"member", CHILD_MEMBER, true},
	[ROLE_GATEWAY] = {"gateway", CHILD_GATEWAY, false},
};

static void on_stop(struct loop *loop, void *arg);
static void on_reload(struct loop *loop, void *arg);

bool launcher_is_running(const struct launcher *l)
{
	for (size_t i = 0; i < ROLE_COUNT; i++)
		if (l->children[i].watch)
			return true;
	return false;
}

void launcher_send_signal(const struct child *c, int signo)
{
	if (c->watch)
		(void)pidfd_send_signal(loop_child_pidfd(c->watch), signo, NULL, 0);
}

void launcher_move(struct launcher *l, enum phase phase, uint64_t patience_us)
{
	l->phase = phase;
	if (patience_us == UINT64_MAX)
		loop_timer_set(l->timer, UINT64_MAX);
	else
		loop_timer_set_in(l->timer, patience_us);
}

void launcher_keep_err(struct launcher *l, const struct err *err)
{
	if (l->has_err)
		return; /* only the first failure matters */
	l->has_err = true;
	l->err = *err;
}

static void finish(struct launcher *l)
{
	loop_stop(l->loop);
}

static void give_up(struct launcher *l)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, 0, "gave up after %u starts that died at once",
	              l->quick_lives);
	(void)err_hint(&err, "the log above says why; sandboxes are left as they are");
	l->has_err = true;
	l->err = err;
	finish(l);
}

void launcher_on_pair_gone(struct launcher *l)
{
	bool was_quick = !l->was_killed && loop_now_us(l->loop) - l->started_us < QUICK_LIFE_US;

	if (l->phase == PHASE_STOPPING) {
		finish(l);
		return;
	}
	if (l->phase == PHASE_RELOADING) {
		launcher_start_pair(l);
		return;
	}
	if (part_starter_undo(&l->starter)) {
		log_error("daemon.reload_undone", "error='%s'", l->err.message);
		l->has_err = false;
		launcher_start_pair(l);
		return;
	}
	if (!l->was_up) {
		finish(l);
		return;
	}
	l->quick_lives = was_quick ? l->quick_lives + 1 : 1;
	if (l->quick_lives > QUICK_LIVES_MAX) {
		give_up(l);
		return;
	}
	launcher_move(l, PHASE_RESTING, REST_US << (l->quick_lives - 1));
}

/* Whether parts end because they were told to. */
static bool is_ending(const struct launcher *l)
{
	return l->phase == PHASE_STOPPING || l->phase == PHASE_RELOADING;
}

static void close_control(struct child *c)
{
	loop_io_removep(&c->control_io);
	if (c->control_fd >= 0)
		(void)close(take_fd(&c->control_fd));
}

struct child_loss launcher_loss_of(const struct child *c)
{
	return (struct child_loss){.part = (uint8_t)launcher_roles[c->role].letter,
	                           .was_stuck = c->is_stuck};
}

static void follow_alone(struct child *c)
{
	struct launcher *l = c->launcher;
	bool was_quick = loop_now_us(l->loop) - c->started_us < QUICK_LIFE_US;

	c->rest_us = was_quick ? MIN(2 * c->rest_us, ALONE_MOST_US) : ALONE_REST_US;
	l->has_err = false;
	loop_timer_set_in(c->rest, c->rest_us);
}

void launcher_on_child_end(struct loop *loop, int wait_status, void *arg)
{
	struct child *c = arg;
	struct launcher *l = c->launcher;
	struct err err;

	(void)loop;
	c->watch = NULL;
	launcher_read_control(c); /* its last word says why, and may come in the same turn */
	close_control(c);
	if (!is_ending(l)) {
		log_warn("daemon.child_died", "name=%s wait_status=0x%x",
		         launcher_roles[c->role].name, wait_status);
		(void)err_set(&err, ERR_INTERNAL, 0, "the %s ended with wait status 0x%x",
		              launcher_roles[c->role].name, wait_status);
		launcher_keep_err(l, &err);
	}
	if (!launcher_is_running(l)) {
		launcher_on_pair_gone(l);
		return;
	}
	if (launcher_roles[c->role].is_alone && l->phase == PHASE_UP) {
		follow_alone(c);
		return;
	}
	if (l->phase == PHASE_UP)
		l->lost = launcher_loss_of(c);
	if (l->phase == PHASE_UP)
		l->was_killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
	if (!is_ending(l))
		launcher_move(l, PHASE_FALLING, FALL_MAX_US);
	if (c->role != ROLE_GATEWAY)
		close_control(&l->children[ROLE_GATEWAY]); /* tells it to stop at once */
}

static void on_up(struct launcher *l)
{
	if (part_starter_keep(&l->starter)) {
		log_init("cloche", l->site->config->log_level);
		log_info("daemon.reloaded", "message='settings are those of the file'");
	}
	if (l->site->config->is_sweep || l->wants_stop) {
		on_stop(l->loop, l);
		return;
	}
	l->ready(l->site);
	if (l->wants_reload)
		on_reload(l->loop, l);
}

static void on_report(struct child *c, const struct child_report *report)
{
	struct launcher *l = c->launcher;
	struct err err = report->err;

	if (!report->is_ready) {
		err.message[sizeof(err.message) - 1] = '\0';
		err.hint[sizeof(err.hint) - 1] = '\0';
		log_error("daemon.start_failed", "name=%s error='%s' hint='%s'",
		          launcher_roles[c->role].name, err.message, err.hint);
		launcher_keep_err(l, &err);
	} else if (c->role == ROLE_GATEWAY && l->phase == PHASE_STARTING) {
		l->was_up = true;
		l->has_err = false;
		launcher_move(l, PHASE_UP, UINT64_MAX);
		l->lost = (struct child_loss){0};
		launcher_on_look(l->loop, l); /* by settings that may be new */
		on_up(l);
	}
}

/* Returns whether there may be more. */
static bool read_one(struct child *c)
{
	struct child_report report;
	ssize_t n;

	if (c->control_fd < 0)
		return false;
	n = recv(c->control_fd, &report, sizeof(report), MSG_DONTWAIT);
	if (n == (ssize_t)sizeof(report)) {
		on_report(c, &report);
	} else if (n == 1) {
		watchdog_on_beat(&c->watchdog);
	} else {
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			close_control(c); /* it is ending: its pidfd tells */
		return false;
	}
	return true;
}

void launcher_read_control(struct child *c)
{
	while (read_one(c))
		continue;
}

void launcher_on_control(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	launcher_read_control(arg);
}

void launcher_on_patience_end(struct loop *loop, void *arg)
{
	struct launcher *l = arg;

	(void)loop;
	if (l->phase == PHASE_RESTING) {
		launcher_start_pair(l);
		return;
	}
	log_error("daemon.stuck", "phase=%d message='what is left is killed; sandboxes stay'",
	          l->phase);
	for (size_t i = 0; i < ROLE_COUNT; i++)
		launcher_send_signal(&l->children[i], SIGKILL);
}

static void on_stop(struct loop *loop, void *arg)
{
	struct launcher *l = arg;

	if (l->phase == PHASE_STOPPING) { /* asked again: now */
		if (loop_now_us(loop) - l->stopping_us >= STOP_AGAIN_US)
			launcher_on_patience_end(loop, l);
		return;
	}
	/* A gateway that is being replaced deletes nothing: the next one does so. */
	if (l->phase == PHASE_RELOADING && l->site->config->is_rm && !l->wants_stop) {
		l->wants_stop = true;
		return;
	}
	notify_send("STOPPING=1");
	log_info("daemon.stopping", "rm=%d", l->site->config->is_rm || l->site->config->is_sweep);
	l->has_err = false;
	l->stopping_us = loop_now_us(loop);
	launcher_move(l, PHASE_STOPPING, STOP_MAX_US);
	if (launcher_is_running(l))
		launcher_send_signal(&l->children[ROLE_GATEWAY], SIGTERM); /* the broker follows */
	else
		finish(l);
}

static void on_reload(struct loop *loop, void *arg)
{
	struct launcher *l = arg;
	struct err err = {0};

	(void)loop;
	l->wants_reload = l->phase != PHASE_UP;
	if (l->wants_reload)
		return;
	if (part_starter_try(&l->starter, &err) < 0) {
		log_error("daemon.reload_refused", "error='%s' hint='settings stay as they were'",
		          err.message);
		return;
	}
	notify_status("settings are being read again; sandboxes run on");
	log_info("daemon.reloading", "message='sandboxes run on'");
	launcher_move(l, PHASE_RELOADING, STOP_MAX_US);
	launcher_send_signal(&l->children[ROLE_GATEWAY], CHILD_LEAVE_SIGNAL);
}

/* Parts that end cannot be replaced any more, so the daemon exits. Sandboxes stay, and systemd
 * starts the daemon again. */
static void on_starter_lost(struct loop *loop, void *arg)
{
	struct launcher *l = arg;
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_INTERNAL, 0, "the process that starts the daemon's parts has died");
	l->has_err = false;
	if (!is_ending(l))
		on_stop(l->loop, l);
	launcher_keep_err(l, &err);
}

/* The starter keeps the rights that the launcher drops here. */
static int confine_itself(struct launcher *l, struct err *err)
{
	int r = confine_all(err);

	if (r < 0)
		return r;
	r = part_starter_open(&l->starter, l->loop, on_starter_lost, l);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot make the starter");
	return confine(&(struct confine_plan){.part = CONFINE_LAUNCHER}, err);
}

static void on_life_end(struct loop *loop, uint32_t events, void *arg)
{
	struct launcher *l = arg;

	if (!(events & (EPOLLHUP | EPOLLERR)))
		return;
	loop_io_removep(&l->life_io);
	on_stop(loop, l);
}

/* A private daemon ends when the process that started it ends, in any way. */
static int watch_life(struct launcher *l)
{
	int fd = l->site->config->life_fd;

	if (fd < 0)
		return 0;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return loop_io_add(l->loop, fd, 0, on_life_end, l,
	                   &l->life_io); /* epoll always reports a hang-up */
}

int launcher_run(const struct site *site, struct reload *reload,
                 void (*ready)(const struct site *site), struct err *err)
{
	struct launcher l = {
		.site = site, .starter = {.site = site, .reload = reload}, .ready = ready};
	int r = loop_new(&l.loop, err);

	if (r < 0)
		return r;
	r = confine_itself(&l, err);
	if (r < 0) {
		part_starter_close(&l.starter);
		loop_free(l.loop);
		return r;
	}
	for (size_t i = 0; i < ROLE_COUNT; i++) {
		struct child *c = &l.children[i];

		*c = (struct child){.launcher = &l,
		                    .role = (enum role)i,
		                    .control_fd = -1,
		                    .rest_us = ALONE_REST_US};
		c->rest = loop_timer_new(l.loop, launcher_on_rest_end, c);
	}
	l.timer = loop_timer_new(l.loop, launcher_on_patience_end, &l);
	l.look = loop_timer_new(l.loop, launcher_on_look, &l);
	(void)signal(SIGPIPE,
	             SIG_IGN); /* the ready fd's reader may be gone; children set their own */
	r = loop_signal_add(l.loop, SIGTERM, on_stop, &l);
	if (r == 0)
		r = loop_signal_add(l.loop, SIGINT, on_stop, &l);
	if (r == 0)
		r = loop_signal_add(l.loop, SIGHUP, on_reload, &l);
	if (r == 0)
		r = watch_life(&l);
	if (r == 0) {
		launcher_start_pair(&l);
		r = loop_run(l.loop);
	}
	if (r < 0)
		r = err_set(err, ERR_INTERNAL, -r, "the launcher's loop failed");
	else if (l.has_err) {
		*err = l.err;
		r = -ECHILD;
	}
	for (size_t i = 0; i < ROLE_COUNT; i++) {
		close_control(&l.children[i]);
		loop_timer_free(l.children[i].rest);
	}
	part_starter_close(&l.starter);
	loop_io_remove(l.life_io);
	loop_timer_free(l.timer);
	loop_timer_free(l.look);
	loop_free(l.loop);
	return r;
}
