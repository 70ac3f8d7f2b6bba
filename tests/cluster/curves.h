// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Curves as SVG, for documents: one chart a file, by attributes alone, so that no rule of a page
 * forbids it. */
#include <stddef.h>
#include <stdio.h>

struct curve {
	const char *name;
	double x[512], y[512];
	size_t n;
};

struct chart {
	const char *title, *x_name, *y_name;
	double x_min, x_max, y_min, y_max;
	double x_step, y_step; /* between lines of the grid */
};

void curve_add(struct curve *c, double x, double y);
void curves_draw(FILE *to, const struct chart *chart, const struct curve *curves, size_t n);
