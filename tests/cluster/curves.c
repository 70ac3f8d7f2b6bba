// SPDX-License-Identifier: Apache-2.0
#include "curves.h"

#include "base/auto.h"

#define WIDTH  720.0
#define HEIGHT 360.0
#define LEFT   60.0
#define RIGHT  20.0
#define TOP    60.0
#define BOTTOM 50.0

static const char *const colours[] = {"#0b62a4", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b"};

void curve_add(struct curve *c, double x, double y)
{
	if (c->n == ARRAY_SIZE(c->x))
		return;
	c->x[c->n] = x;
	c->y[c->n++] = y;
}

static double x_of(const struct chart *c, double x)
{
	return LEFT + (x - c->x_min) / (c->x_max - c->x_min) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct chart *c, double y)
{
	y = MIN(MAX(y, c->y_min), c->y_max);
	return HEIGHT - BOTTOM - (y - c->y_min) / (c->y_max - c->y_min) * (HEIGHT - TOP - BOTTOM);
}

static void draw_grid(FILE *to, const struct chart *c)
{
	for (double y = c->y_min; y <= c->y_max + c->y_step / 100; y += c->y_step) {
		fprintf(to,
		        "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
		        LEFT, WIDTH - RIGHT, y_of(c, y), y_of(c, y));
		fprintf(to, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6,
		        y_of(c, y) + 4, y);
	}
	for (double x = c->x_min; x <= c->x_max + c->x_step / 100; x += c->x_step)
		fprintf(to, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%g</text>\n",
		        x_of(c, x), HEIGHT - BOTTOM + 18, x);
	fprintf(to, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
	        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, c->x_name);
	fprintf(to, "<text x=\"%.0f\" y=\"20\" font-weight=\"bold\">%s</text>\n", LEFT, c->title);
	fprintf(to, "<text x=\"4\" y=\"%.0f\">%s</text>\n", TOP - 10, c->y_name);
}

void curves_draw(FILE *to, const struct chart *chart, const struct curve *curves, size_t n)
{
	double at = LEFT + 40;

	fprintf(to,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
	        "width=\"%.0f\" height=\"%.0f\" "
	        "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n",
	        WIDTH, HEIGHT, WIDTH, HEIGHT);
	fprintf(to, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", WIDTH, HEIGHT);
	draw_grid(to, chart);
	for (size_t i = 0; i < n; i++) {
		const char *colour = colours[i % ARRAY_SIZE(colours)];

		fprintf(to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
		        colour);
		for (size_t k = 0; k < curves[i].n; k++)
			fprintf(to, "%s%.1f,%.1f", k ? " " : "", x_of(chart, curves[i].x[k]),
			        y_of(chart, curves[i].y[k]));
		fprintf(to,
		        "\"/>\n<rect x=\"%.0f\" y=\"30\" width=\"12\" height=\"4\" fill=\"%s\"/>\n",
		        at, colour);
		fprintf(to, "<text x=\"%.0f\" y=\"36\">%s</text>\n", at + 18, curves[i].name);
		at += 165;
	}
	fprintf(to, "</svg>\n");
}
