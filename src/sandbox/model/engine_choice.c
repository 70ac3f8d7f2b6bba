// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses the engine of a new sandbox: the one that is asked for, else the preferred one, else the
 * first of engines[] that is available, allowed, and strong enough. If there is none, the create is
 * refused with the reason; an engine that is weaker than asked for is never used instead.
 *
 * The preferred one is that of the setting `default_engine`, or the strongest whose guests were
 * seen to run at full speed on this host. It is left out for sandboxes that it cannot run
 * (needs_base): with volumes, from the host's own files, or smaller than a machine can be.
 */
#include "sandbox/model/create_rules.h"
#include "sandbox/model/find.h"

#include <stdio.h>
#include <string.h>

static size_t row_of(uint32_t engine)
{
	size_t row = 0;

	while (engines[row]->number != engine)
		row++;
	return row;
}

const struct isolation *fleet_isolation(const struct fleet *fleet, uint32_t engine)
{
	return &fleet->probe.probe.engines[row_of(engine)].isolation;
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
	if (!engine_find_name(word))
		return err_field(err, "engine", "there is no '%s'", word);
	*ret = engine_find_name(word)->number;
	return 0;
}

/* Whether it is available and strong enough. */
static bool serves(const struct fleet *fleet, uint32_t engine, uint32_t grade)
{
	const struct isolation *i = fleet_isolation(fleet, engine);

	return !fleet_forbids(fleet, engine) && i->engine == engine && i->grade >= grade;
}

static bool has_any(const struct fleet *fleet)
{
	for (size_t i = 0; engines[i]; i++)
		if (serves(fleet, engines[i]->number, 0))
			return true;
	return false;
}

static uint32_t first_allowed(const struct fleet *fleet)
{
	for (size_t i = 0; engines[i]; i++)
		if (!fleet_forbids(fleet, engines[i]->number))
			return engines[i]->number;
	return ENGINE_BASE;
}

static int refuse_engine(const struct fleet *fleet, uint32_t engine, struct err *err)
{
	if (fleet_forbids(fleet, engine)) {
		(void)err_set(err, ERR_FORBIDDEN, 0, "engine: this daemon's settings forbid %ss",
		              engine_name(engine));
		return err_hint(err, "leave engine out; the setting is `engines`");
	}
	*err = fleet->probe.probe.engines[row_of(engine)].err;
	return err_prefix(err, "engine %s", engine_name(engine));
}

static int refuse_grade(const struct fleet *fleet, uint32_t engine, uint32_t grade, struct err *err)
{
	uint32_t best = 0;

	for (size_t i = 0; engines[i]; i++)
		if ((engine == 0 || engine == engines[i]->number) &&
		    serves(fleet, engines[i]->number, 0))
			best = MAX(best, fleet_isolation(fleet, engines[i]->number)->grade);
	(void)err_set(err, ERR_UNSUPPORTED, 0,
	              "min_grade: '%s' is asked for, and the best that %s can give is '%s'",
	              grade_name(grade), engine ? engine_name(engine) : "this host",
	              grade_name(best));
	return err_hint(err, "`cloche doctor` shows what this host lacks for more");
}

static bool is_quick(const struct fleet *fleet, uint32_t engine)
{
	return fleet->probe.probe.engines[row_of(engine)].speed == SPEED_FULL;
}

/* 0: none before the others. */
static uint32_t preferred(const struct fleet *fleet)
{
	uint32_t best = 0;

	if (fleet->config.default_engine)
		return fleet->config.default_engine;
	for (size_t i = 0; engines[i]; i++) {
		const uint32_t e = engines[i]->number;

		if (serves(fleet, e, 0) && is_quick(fleet, e) &&
		    (!best ||
		     fleet_isolation(fleet, e)->grade > fleet_isolation(fleet, best)->grade))
			best = e;
	}
	return best;
}

static bool is_fit(uint32_t engine, bool needs_base)
{
	return !needs_base || !engine_find(engine)->traits.has_own_kernel;
}

/* Of an engine that is not the default and is stronger: why it is not. */
static void say_why_not(const struct fleet *fleet, size_t row, char *ret, size_t size)
{
	static const char *const words[] = {
		[SPEED_FULL] = "",
		[SPEED_UNTRIED] = "KVM was not tried yet, for want of a kernel or template",
		[SPEED_SLOW] = "this host's KVM runs guests, and takes long to start them",
		[SPEED_EMULATED] =
			"this host has no KVM that runs guests, and emulated ones are slow",
	};
	const struct err *lacks = &fleet->probe.probe.engines[row].err;

	if (fleet_forbids(fleet, engines[row]->number))
		(void)snprintf(ret, size, "the setting `engines` forbids %ss", engines[row]->name);
	else if (lacks->code != ERR_NONE)
		(void)snprintf(ret, size, "%s", lacks->message);
	else
		(void)snprintf(ret, size, "%s", words[fleet->probe.probe.engines[row].speed]);
}

uint32_t engine_default(const struct fleet *fleet, char *why, size_t size)
{
	uint32_t engine = 0;
	struct err err;

	why[0] = '\0';
	if (engine_choose(fleet, NULL, NULL, 0, /* needs_base= */ false, &engine, &err) < 0)
		(void)snprintf(why, size, "%s", err.message);
	else if (fleet->config.default_engine == engine)
		(void)snprintf(why, size, "the setting `default_engine` says so");
	else if (engine_find(engine)->traits.has_own_kernel)
		(void)snprintf(why, size,
		               is_quick(fleet, engine) ? "this host's KVM runs guests at full speed"
		                                       : "no other is there and allowed");
	else
		for (size_t i = 0; engines[i]; i++)
			if (engines[i]->traits.has_own_kernel)
				say_why_not(fleet, i, why, size);
	return engine;
}

uint32_t engine_untried(const struct fleet *fleet)
{
	for (size_t i = 0; !fleet->config.default_engine && engines[i]; i++)
		if (serves(fleet, engines[i]->number, GRADE_HARDWARE) &&
		    fleet->probe.probe.engines[i].speed == SPEED_UNTRIED)
			return engines[i]->number;
	return 0;
}

int engine_choose(const struct fleet *fleet, const char *engine_word, const char *grade_word,
                  uint32_t bound, bool needs_base, uint32_t *ret, struct err *err)
{
	const uint32_t first = preferred(fleet);
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
	if (engine == 0 && first && serves(fleet, first, grade) && is_fit(first, needs_base))
		engine = first;
	for (size_t i = 0; engines[i]; i++) {
		const uint32_t e = engines[i]->number;

		if ((engine == 0 || engine == e) && serves(fleet, e, grade)) {
			*ret = e;
			return 0;
		}
	}
	return has_any(fleet) ? refuse_grade(fleet, engine, grade, err)
	                      : refuse_engine(fleet, first_allowed(fleet), err);
}

int engine_refuse_without(bool has, uint32_t engine, const char *what, struct err *err)
{
	if (has)
		return 0;
	(void)err_set(err, ERR_UNSUPPORTED, 0, "engine %s has no %s", engine_name(engine), what);
	return err_hint(err, "ask for engine %s", engine_name(ENGINE_BASE));
}
