// SPDX-License-Identifier: Apache-2.0
/*
 * Which engine a new sandbox gets: the one that is asked for, else a jail, else (where jails are
 * forbidden, or too weak for what is asked) a vm. What cannot be had is refused with the reason;
 * nothing weaker is ever given instead.
 */
#include "sandbox/model/create_rules.h"
#include "sandbox/model/find.h"

#include <string.h>

static const struct isolation *find(const struct fleet *fleet, uint32_t engine)
{
	return engine == ENGINE_VM ? &fleet->probe.probe.vm : &fleet->probe.probe.isolation;
}

bool fleet_forbids(const struct fleet *fleet, uint32_t engine)
{
	return (fleet->config.engines_forbidden & BIT(engine)) != 0;
}

static int read_grade(const char *word, uint32_t *ret, struct err *err)
{
	*ret = 0;
	if (!word)
		return 0;
	for (uint32_t g = GRADE_PROCESS; g <= GRADE_HARDWARE; g++)
		if (strcmp(word, grade_name(g)) == 0)
			*ret = g;
	return *ret ? 0 : err_field(err, "min_grade", "must be process, emulated or hardware");
}

/* 0: auto. */
static int read_engine(const char *word, uint32_t *ret, struct err *err)
{
	*ret = 0;
	if (!word || strcmp(word, "auto") == 0)
		return 0;
	if (strcmp(word, "jail") == 0)
		*ret = ENGINE_JAIL;
	else if (strcmp(word, "vm") == 0)
		*ret = ENGINE_VM;
	return *ret ? 0 : err_field(err, "engine", "must be auto, jail or vm");
}

/* Can it be had, and is it strong enough? */
static bool serves(const struct fleet *fleet, uint32_t engine, uint32_t grade)
{
	const struct isolation *i = find(fleet, engine);

	return !fleet_forbids(fleet, engine) && i->engine == engine && i->grade >= grade;
}

static int refuse_engine(const struct fleet *fleet, uint32_t engine, struct err *err)
{
	if (fleet_forbids(fleet, engine)) {
		(void)err_set(err, ERR_FORBIDDEN, 0, "engine: this daemon's settings forbid %ss",
		              engine_name(engine));
		return err_hint(err, "leave engine out; the setting is `engines`");
	}
	*err = fleet->probe.probe.vm_err;
	return err_prefix(err, "engine vm");
}

static int refuse_grade(const struct fleet *fleet, uint32_t engine, uint32_t grade, struct err *err)
{
	uint32_t best = 0;

	for (uint32_t e = ENGINE_JAIL; e <= ENGINE_VM; e++)
		if ((engine == 0 || engine == e) && serves(fleet, e, GRADE_PROCESS))
			best = MAX(best, find(fleet, e)->grade);
	(void)err_set(err, ERR_UNSUPPORTED, 0,
	              "min_grade: '%s' is asked for, and the best that %s can give is '%s'",
	              grade_name(grade), engine ? engine_name(engine) : "this host",
	              grade_name(best));
	return err_hint(err, "`cloche doctor` tells what this host lacks for more");
}

int engine_choose(const struct fleet *fleet, const char *engine_word, const char *grade_word,
                  uint32_t bound, uint32_t *ret, struct err *err)
{
	uint32_t engine = 0, grade = 0;
	int r = read_engine(engine_word, &engine, err);

	if (r == 0)
		r = read_grade(grade_word, &grade, err);
	if (r < 0)
		return r;
	if (bound && engine && engine != bound)
		return err_field(err, "engine", "the snapshot is of a %s", engine_name(bound));
	engine = bound ? bound : engine;
	if (engine && !serves(fleet, engine, 0))
		return refuse_engine(fleet, engine, err);
	for (uint32_t e = ENGINE_JAIL; e <= ENGINE_VM; e++)
		if ((engine == 0 || engine == e) && serves(fleet, e, grade)) {
			*ret = e;
			return 0;
		}
	if (fleet_forbids(fleet, ENGINE_JAIL) && !serves(fleet, ENGINE_VM, 0))
		return refuse_engine(fleet, ENGINE_VM, err);
	return refuse_grade(fleet, engine, grade, err);
}

int engine_refuse_vm(uint32_t engine, const char *what, struct err *err)
{
	if (engine != ENGINE_VM)
		return 0;
	(void)err_set(err, ERR_UNSUPPORTED, 0, "engine vm has no %s", what);
	return err_hint(err, "ask for engine jail");
}
