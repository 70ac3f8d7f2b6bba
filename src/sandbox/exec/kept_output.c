// SPDX-License-Identifier: Apache-2.0
/*
 * Bounds the output of execs that is kept on the host's disk, since tenants can write any amount.
 * It is counted by sandbox, by project and for the host, and each of the three has a bound.
 *
 * When a bound is exceeded, the whole output of the exec that ended first is removed: in the same
 * sandbox or the same project, or, for the host's bound, in the project that keeps the most, so
 * that nobody loses output by another's flood. If all output belongs to running execs, the one that
 * writes loses its oldest part. Readers get a gap, as when a spool wraps around.
 */
#include "sandbox/exec/exec_private.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/find.h"

#define EXEC_OVERHEAD  1024        /* bytes that an exec takes without output */
#define EXECS_MAX      100         /* of an ended sandbox: the newest stay */
#define SHED_BYTES_MIN (64 * 1024) /* at a time: to make room is rare */

struct kept_project {
	char id[ID_SIZE];
	uint64_t bytes;
	struct list over; /* execs that are over and have output, in order of their end */
	UT_hash_handle hh;
};

static struct kept_project *project_of(struct sandbox *s)
{
	struct fleet *fleet = s->fleet;
	struct kept_project *p = NULL;

	if (s->kept_project)
		return s->kept_project;
	HASH_FIND_STR(fleet->kept_projects, s->project_id, p);
	if (!p) {
		p = xnew0(struct kept_project);
		memcpy(p->id, s->project_id, sizeof(p->id));
		list_init(&p->over);
		HASH_ADD_STR(fleet->kept_projects, id, p);
	}
	s->kept_project = p;
	return p;
}

static void count(struct exec *e, uint64_t bytes)
{
	struct sandbox *s = e->sandbox;
	struct kept_project *p = project_of(s);
	uint64_t before = e->kept_bytes;

	e->kept_bytes = bytes;
	s->kept_bytes += bytes - before;
	p->bytes += bytes - before;
	s->fleet->kept_bytes += bytes - before;
}

/* The size of a spool that was not opened since the start, by its figures. */
static uint64_t estimate(const struct exec *e)
{
	uint64_t bytes = spool_estimate(e->last_seq, e->stdout_bytes + e->stderr_bytes);

	return MIN(bytes, rules_effective_exec_limits(e->sandbox).output_bytes);
}

static uint64_t measure(const struct exec *e)
{
	return e->spool ? spool_kept(e->spool) : estimate(e);
}

static void drop(struct exec *e)
{
	list_remove(&e->link_kept);
	list_remove(&e->link_kept_project);
	if (e->spool)
		spool_drop(e->spool);
	else
		spool_remove(e->sandbox->fleet->spool_fd, e->id);
	count(e, 0);
	e->sandbox->fleet->counts.outputs_dropped++;
}

static struct kept_project *find_largest(struct fleet *fleet)
{
	struct kept_project *largest = fleet->kept_projects;

	for (struct kept_project *p = largest; p; p = p->hh.next)
		if (p->bytes > largest->bytes)
			largest = p;
	return largest;
}

static bool is_over(uint64_t bytes, uint64_t max)
{
	return max > 0 && bytes > max;
}

/* The exec whose output is removed to make room for e; NULL if none is over. *ret_over: by how much
 * its bound is exceeded. */
static struct exec *choose(struct exec *e, uint64_t *ret_over)
{
	struct sandbox *s = e->sandbox;
	struct fleet *fleet = s->fleet;
	const struct fleet_config *c = &fleet->config;
	const struct list *from;

	*ret_over = 0;
	if (is_over(s->kept_bytes, c->output_sandbox_max)) {
		*ret_over = s->kept_bytes - c->output_sandbox_max;
		return list_first(&s->kept, struct exec, link_kept);
	}
	if (is_over(project_of(s)->bytes, c->output_project_max)) {
		*ret_over = project_of(s)->bytes - c->output_project_max;
		return list_first(&project_of(s)->over, struct exec, link_kept_project);
	}
	if (!is_over(fleet->kept_bytes, c->output_host_max))
		return NULL;
	*ret_over = fleet->kept_bytes - c->output_host_max;
	from = &find_largest(fleet)->over;
	return list_first(from, struct exec, link_kept_project);
}

static void make_room(struct exec *e)
{
	uint64_t over, before;

	for (;;) {
		struct exec *oldest = choose(e, &over);

		if (over == 0)
			return;
		if (oldest) {
			drop(oldest);
			if (oldest == e)
				return;
			continue;
		}
		if (!e->spool)
			return;
		before = e->kept_bytes;
		spool_shed(e->spool, MAX(over, (uint64_t)SHED_BYTES_MIN));
		count(e, measure(e));
		if (e->kept_bytes >= before)
			return; /* there is but its last piece */
	}
}

void kept_note(struct exec *e)
{
	count(e, measure(e));
	make_room(e);
}

void kept_end(struct exec *e)
{
	if (!list_empty(&e->link_kept))
		return;
	count(e, measure(e));
	if (e->kept_bytes == 0)
		return;
	list_append(&e->sandbox->kept, &e->link_kept);
	list_append(&project_of(e->sandbox)->over, &e->link_kept_project);
	make_room(e);
}

void kept_forget(struct exec *e)
{
	list_remove(&e->link_kept);
	list_remove(&e->link_kept_project);
	count(e, 0);
}

uint64_t fleet_output_kept(const struct fleet *fleet, const char *project_id)
{
	const struct kept_project *p = NULL;

	if (!project_id)
		return fleet->kept_bytes;
	HASH_FIND_STR(fleet->kept_projects, project_id, p);
	return p ? p->bytes : 0;
}

void kept_close(struct fleet *fleet)
{
	while (fleet->kept_projects) {
		struct kept_project *p = fleet->kept_projects;

		HASH_DEL(fleet->kept_projects, p);
		free(p);
	}
}

uint64_t kept_bytes_of(const struct exec *e)
{
	uint64_t output =
		e->spool ? spool_bytes(e->spool, SPOOL_STDOUT) + spool_bytes(e->spool, SPOOL_STDERR)
			 : e->stdout_bytes + e->stderr_bytes;

	return EXEC_OVERHEAD + MIN(output, e->sandbox->fleet->config.spool_bytes_max);
}

static bool trim_execs(struct loop *loop, void *arg)
{
	struct sandbox *s = arg;

	while (exec_remove_some(s, EXECS_MAX))
		if (!loop_has_time(loop))
			return false;
	return true;
}

void kept_trim(struct sandbox *s)
{
	if (s->n_execs <= EXECS_MAX)
		return;
	if (!s->exec_trim)
		s->exec_trim = loop_job_new(s->fleet->config.loop, trim_execs, s);
	loop_job_start(s->exec_trim);
}

void retention_add_exec(const struct exec *e)
{
	struct sandbox *s = e->sandbox;

	if (s->place != PLACE_ENDED)
		return;
	s->retained_bytes += kept_bytes_of(e);
	s->fleet->ended_bytes += kept_bytes_of(e);
	kept_trim(s);
}

void retention_remove_exec(const struct exec *e)
{
	struct sandbox *s = e->sandbox;
	uint64_t bytes = s->place == PLACE_ENDED ? MIN(kept_bytes_of(e), s->retained_bytes) : 0;

	s->retained_bytes -= bytes;
	s->fleet->ended_bytes -= bytes;
}
