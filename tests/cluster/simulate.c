// SPDX-License-Identifier: Apache-2.0
/* One run of the simulation, or those whose curves docs/design/cluster.md shows. Prints the seed,
 * and fails if an invariant does. */
#include "curves.h"
#include "world.h"

#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int usage(void)
{
	fprintf(stderr, "usage: simulate-cluster [--seed N] [--nodes N] [--projects N] [--names N] "
	                "[--live N] [--load PERMILLE] [--seconds N]\n"
	                "       [--life SECONDS] [--sticky PERMILLE] [--late ONE_OF] [--choices N] "
	                "[--tolerance PERMILLE] [--faults] [--break RULE]\n"
	                "       simulate-cluster [--seed N] --curves FOLDER | --large FOLDER: the "
	                "runs whose curves "
	                "docs/design/cluster.md shows\nRULE is one of:");
	for (int i = 1; i < BREAK_COUNT; i++)
		fprintf(stderr, " %s", breakage_names[i]);
	fprintf(stderr, "\n");
	return 2;
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

static void print(const struct world_options *o, const struct world_report *r)
{
	unsigned points = 0;

	for (unsigned i = 0; i < r->n_points; i++)
		points += r->points[i].at_s >= o->seconds / 2;
	printf("seed %" PRIu64
	       ": %u nodes, %u projects, %u s, up to %u sandboxes at a time, %" PRIu64 " steps\n",
	       o->seed, o->nodes, o->projects, o->seconds, r->live_max, r->steps);
	printf("placement: %" PRIu64 " creates, %" PRIu64
	       " made, %.1f %% proxied, fullest node %.1f %% (mean of maxima %.1f %%), "
	       "%.1f %% without image, %" PRIu64 " refusals retried, %" PRIu64 " without room\n",
	       r->creates, r->made, percent(r->proxied, r->made), r->fullest / 10.0,
	       points ? (double)r->fullest_sum / points / 10 : 0, percent(r->cold_images, r->made),
	       r->refused_full, r->no_room);
	printf("quota: %" PRIu64 " over, %" PRIu64
	       " refused though quota was left (%.3f %%), %.1f %% of it used where more is wanted, "
	       "calls a create: %.2f for more, %.2f for less; names taken %" PRIu64
	       "; no contact %" PRIu64 "\n",
	       r->over_quota, r->under_quota, percent(r->under_quota, r->creates),
	       percent(r->pressed_used, r->pressed_limit), percent(r->raises, r->creates) / 100,
	       percent(r->returns, r->creates) / 100, r->names_taken, r->unavailable);
	printf("faults: %" PRIu64 " crashes, %" PRIu64 " cuts, %" PRIu64 " failovers; %" PRIu64
	       " claims of %" PRIu64 " sandboxes, %.1f s after a death (at most %.1f s), %" PRIu64
	       " nodes lost\n",
	       r->crashes, r->cuts, r->failovers, r->claims, r->claimed,
	       r->claims_of_dead ? (double)r->claim_us_sum / 1e6 / (double)r->claims_of_dead : 0,
	       (double)r->claim_us_max / 1e6, r->losses);
	printf("calls: %" PRIu64 ", %" PRIu64 " by a hop, %" PRIu64 " to what did not run\n",
	       r->calls, r->calls_hopped, r->calls_failed);
	for (int i = 0; i < INVARIANT_COUNT; i++) {
		if (r->broken[i])
			printf("BROKEN %s: %" PRIu64 " times\n", invariant_names[i], r->broken[i]);
	}
	if (r->first[0])
		printf("first: %s\n", r->first);
}

static bool read_rule(const char *name, struct world_options *o)
{
	for (int i = 1; i < BREAK_COUNT; i++) {
		if (strcmp(name, breakage_names[i]) != 0)
			continue;
		o->breakage = (enum breakage)i;
		return true;
	}
	return false;
}

static bool read_options(int argc, char **argv, struct world_options *o, const char **ret_folder,
                         bool *ret_is_large)
{
	const struct {
		const char *name;
		uint32_t *value;
	} numbers[] = {
		{"--nodes", &o->nodes},
		{"--projects", &o->projects},
		{"--names", &o->names},
		{"--live", &o->live},
		{"--load", &o->load},
		{"--seconds", &o->seconds},
		{"--life", &o->life},
		{"--sticky", &o->sticky},
		{"--late", &o->late_of},
		{"--choices", &o->placement.choices},
		{"--tolerance", &o->placement.tolerance},
	};

	for (int i = 1; i < argc; i++) {
		const char *name = argv[i];
		uint64_t n;
		size_t k = 0;

		if (strcmp(name, "--faults") == 0) {
			o->has_faults = true;
			continue;
		}
		if (++i == argc)
			return false;
		if (strcmp(name, "--curves") == 0 || strcmp(name, "--large") == 0) {
			*ret_is_large = strcmp(name, "--large") == 0;
			*ret_folder = argv[i];
			continue;
		}
		if (strcmp(name, "--break") == 0) {
			if (!read_rule(argv[i], o))
				return false;
			continue;
		}
		if (parse_u64(argv[i], UINT64_MAX, &n) < 0)
			return false;
		if (strcmp(name, "--seed") == 0) {
			o->seed = n;
			continue;
		}
		while (k < ARRAY_SIZE(numbers) && strcmp(name, numbers[k].name) != 0)
			k++;
		if (k == ARRAY_SIZE(numbers) || n == 0 || n > 100000000)
			return false;
		*numbers[k].value = (uint32_t)n;
	}
	return true;
}

static FILE *chart_file(const char *folder, const char *name)
{
	auto_free char *path = xasprintf("%s/cluster-%s.svg", folder, name);
	FILE *f = fopen(path, "we");

	if (!f) {
		perror(path);
		exit(2);
	}
	return f;
}

static void must_hold(const struct world_options *o, const struct world_report *r)
{
	print(o, r);
	(void)fflush(stdout);
	if (world_broken(r))
		exit(1);
}

/* How even and how local placement is, by how full the cluster is: three tolerances. */
static void draw_placement(const struct world_options *from, const char *folder)
{
	static const uint32_t tolerances[] = {0, 50, 100000};
	struct curve fullest[] = {
		{.name = "0 points"}, {.name = "5 points"}, {.name = "always stays"}};
	struct curve proxied[] = {
		{.name = "0 points"}, {.name = "5 points"}, {.name = "always stays"}};
	FILE *f;

	for (size_t i = 0; i < ARRAY_SIZE(tolerances); i++) {
		for (uint32_t load = 500; load <= 950; load += 50) {
			struct world_options o = *from;
			struct world_report r;
			unsigned points = 0;

			o.nodes = 200;
			o.projects = 100;
			o.names = 20000;
			o.live = 40000;
			o.life = 300;
			o.seconds = 600;
			o.load = load;
			o.placement.tolerance = tolerances[i];
			world_run(&o, &r);
			must_hold(&o, &r);
			for (unsigned k = 0; k < r.n_points; k++)
				points += r.points[k].at_s >= o.seconds / 2;
			curve_add(&fullest[i], load / 10.0, (double)r.fullest_sum / points / 10);
			curve_add(&proxied[i], load / 10.0, percent(r.proxied, r.made));
			world_report_done(&r);
		}
	}
	f = chart_file(folder, "fullest");
	curves_draw(f,
	            &(struct chart){"Fullest of 200 nodes, by tolerance",
	                            "how full the cluster is, %", "%", 50, 95, 50, 100, 5, 10},
	            fullest, ARRAY_SIZE(fullest));
	(void)fclose(f);
	f = chart_file(folder, "proxied");
	curves_draw(f,
	            &(struct chart){"Creates that another node makes, by tolerance",
	                            "how full the cluster is, %", "%", 50, 95, 0, 100, 5, 20},
	            proxied, ARRAY_SIZE(proxied));
	(void)fclose(f);
}

/* What leases cost, by how many sandboxes of a project are on a node. */
static void draw_leases(const struct world_options *from, const char *folder)
{
	static const uint32_t projects[] = {5, 10, 20, 40, 80, 160, 320};
	struct curve curves[] = {{.name = "calls for more"}, {.name = "refused too early"}};
	FILE *f;

	for (size_t i = 0; i < ARRAY_SIZE(projects); i++) {
		struct world_options o = *from;
		struct world_report r;

		o.nodes = 100;
		o.projects = projects[i];
		o.names = 20000;
		o.live = 20000;
		o.life = 300;
		o.seconds = 900;
		world_run(&o, &r);
		must_hold(&o, &r);
		curve_add(&curves[0], (double)o.live / o.nodes / projects[i],
		          percent(r.raises, r.creates));
		curve_add(&curves[1], (double)o.live / o.nodes / projects[i],
		          percent(r.under_quota, r.creates));
		world_report_done(&r);
	}
	f = chart_file(folder, "leases");
	curves_draw(f,
	            &(struct chart){"Leases: of 100 creates", "sandboxes of a project on a node",
	                            "", 0, 40, 0, 100, 5, 20},
	            curves, ARRAY_SIZE(curves));
	(void)fclose(f);
}

/* The large run: a thousand nodes, a million sandboxes, bad days. */
static void draw_large(const struct world_options *from, const char *folder)
{
	struct curve curves[] = {{.name = "fullest node"},
	                         {.name = "all"},
	                         {.name = "emptiest node"},
	                         {.name = "proxied creates"}};
	struct world_options o = *from;
	struct world_report r;
	FILE *f;

	o.nodes = 1000;
	o.projects = 500;
	o.names = 200000;
	o.live = 1000000;
	o.life = 600;
	o.seconds = 600;
	o.has_faults = true;
	o.fence = fence_usual;
	world_run(&o, &r);
	for (unsigned i = 0; i < r.n_points; i++) {
		const struct world_point *p = &r.points[i];

		curve_add(&curves[0], p->at_s, p->fullest / 10.0);
		curve_add(&curves[1], p->at_s, p->load / 10.0);
		curve_add(&curves[2], p->at_s, p->emptiest / 10.0);
		curve_add(&curves[3], p->at_s, p->proxied / 10.0);
	}
	f = chart_file(folder, "large");
	curves_draw(f,
	            &(struct chart){"1,000 nodes, a million sandboxes, with faults", "seconds", "%",
	                            0, 600, 0, 100, 100, 20},
	            curves, ARRAY_SIZE(curves));
	(void)fclose(f);
	must_hold(&o, &r);
	world_report_done(&r);
}

int main(int argc, char **argv)
{
	struct world_options o = world_usual;
	struct world_report r;
	const char *folder = NULL;
	bool is_large = false;
	int failed;

	if (!read_options(argc, argv, &o, &folder, &is_large))
		return usage();
	if (folder && is_large) {
		draw_large(&o, folder);
		return 0;
	}
	if (folder) {
		draw_placement(&o, folder);
		draw_leases(&o, folder);
		return 0;
	}
	world_run(&o, &r);
	print(&o, &r);
	failed = world_broken(&r) > 0;
	world_report_done(&r);
	return failed;
}
