// SPDX-License-Identifier: Apache-2.0
/*
 * The expression becomes a small program (Thompson, 1968; Pike's machine): steps that take a byte,
 * forks, jumps and assertions about the position in the text. Jumps are relative, so that a piece
 * of the program can be moved to put a fork before it, and copied to repeat it. regex_run.c runs
 * it.
 */
#include "net/match/regex_private.h"

#include "base/parse.h"

#include <ctype.h>
#include <string.h>

#define DEPTH_MAX  32
#define REPEAT_MAX 255
#define NO_LIMIT   (REPEAT_MAX + 1)

struct parser {
	struct regex *r;
	const char *at;
	bool ignores_case, dot_is_all;
	int depth;
	const char **why;
};

static int refuse(struct parser *p, const char *words)
{
	return refuse_as(p->why, words);
}

static int emit(struct parser *p, enum op op, int x, int y)
{
	if (p->r->n == REGEX_STATES_MAX)
		return refuse(p, "is too large: it has more than 256 states");
	p->r->steps[p->r->n++] = (struct step){op, x, y};
	return 0;
}

/* Inserts a step at start, before the steps that are there. */
static int insert(struct parser *p, int start, enum op op, int x, int y)
{
	struct step *steps = p->r->steps;

	if (emit(p, op, x, y) < 0)
		return -EINVAL;
	memmove(&steps[start + 1], &steps[start], (size_t)(p->r->n - 1 - start) * sizeof(*steps));
	steps[start] = (struct step){op, x, y};
	return 0;
}

static void set_add(struct set *s, unsigned byte)
{
	s->bits[byte / 64] |= BIT64(byte % 64);
}

static void set_add_range(struct set *s, unsigned first, unsigned last)
{
	for (unsigned b = first; b <= last; b++)
		set_add(s, b);
}

static void set_invert(struct set *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->bits); i++)
		s->bits[i] = ~s->bits[i];
}

static void set_add_cases(struct set *s)
{
	for (unsigned b = 'a'; b <= 'z'; b++) {
		unsigned other = b - 'a' + 'A';

		if (set_has(s, b) || set_has(s, other)) {
			set_add(s, b);
			set_add(s, other);
		}
	}
}

static int emit_set(struct parser *p, const struct set *s)
{
	if (p->r->n_classes == CLASSES_MAX)
		return refuse(p, "has more than 64 classes");
	p->r->classes[p->r->n_classes] = *s;
	return emit(p, OP_CLASS, p->r->n_classes++, 0);
}

static int emit_byte(struct parser *p, unsigned byte)
{
	struct set s = {0};

	if (!p->ignores_case || !isalpha((int)byte) || byte > 127)
		return emit(p, OP_BYTE, (int)byte, 0);
	set_add(&s, byte);
	set_add_cases(&s);
	return emit_set(p, &s);
}

/* The set of \d and the like; false if c is no such letter. */
static bool named_set(char c, struct set *ret)
{
	struct set s = {0};

	switch (tolower((unsigned char)c)) {
	case 'd':
		set_add_range(&s, '0', '9');
		break;
	case 'w':
		set_add_range(&s, '0', '9');
		set_add_range(&s, 'a', 'z');
		set_add_range(&s, 'A', 'Z');
		set_add(&s, '_');
		break;
	case 's':
		for (const char *b = "\t\n\f\r "; *b; b++)
			set_add(&s, (unsigned char)*b);
		break;
	default:
		return false;
	}
	if (isupper((unsigned char)c))
		set_invert(&s);
	for (size_t i = 0; i < ARRAY_SIZE(s.bits); i++)
		ret->bits[i] |= s.bits[i];
	return true;
}

/* An escaped byte; p->at is behind its backslash. */
static int escaped_byte(struct parser *p, unsigned *ret)
{
	static const char letters[] = "tnrfv", bytes[] = "\t\n\r\f\v";
	const char *letter = *p->at ? strchr(letters, *p->at) : NULL;
	uint64_t value;

	if (letter) {
		*ret = (unsigned char)bytes[letter - letters];
	} else if (*p->at == 'x' && p->at[1] && parse_hex(p->at + 1, 2, &value) == 0) {
		*ret = (unsigned)value;
		p->at += 2;
	} else if (*p->at > 0 && ispunct((unsigned char)*p->at)) {
		*ret = (unsigned char)*p->at;
	} else {
		return refuse(p, "has a backslash before what has no meaning with it");
	}
	p->at++;
	return 0;
}

static int parse_escape(struct parser *p)
{
	static const struct {
		char letter;
		enum op op;
	} looks[] = {{'A', OP_BEGIN}, {'z', OP_END}, {'b', OP_WORD_EDGE}, {'B', OP_NO_WORD_EDGE}};
	struct set s = {0};
	unsigned byte;

	for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
		if (*p->at != looks[i].letter)
			continue;
		p->at++;
		return emit(p, looks[i].op, 0, 0);
	}
	if (named_set(*p->at, &s)) {
		p->at++;
		return emit_set(p, &s);
	}
	return escaped_byte(p, &byte) < 0 ? -EINVAL : emit_byte(p, byte);
}

/* One end of a range. *ret_is_set: it was \d or the like, and was added to *set. */
static int class_item(struct parser *p, struct set *set, unsigned *ret, bool *ret_is_set)
{
	*ret_is_set = false;
	if ((unsigned char)*p->at > 127)
		return refuse(p, "has a class with a letter that is not ASCII");
	if (*p->at == '\0')
		return refuse(p, "has a class without its ']'");
	if (*p->at == '[' && strchr(":=.", p->at[1]) && p->at[1])
		return refuse(p, "has a class with a named one in it");
	if (*p->at != '\\') {
		*ret = (unsigned char)*p->at++;
		return 0;
	}
	p->at++;
	if (named_set(*p->at, set)) {
		p->at++;
		*ret_is_set = true;
		return 0;
	}
	return escaped_byte(p, ret);
}

static int class_range(struct parser *p, struct set *set)
{
	unsigned first, last;
	bool is_set;

	if (class_item(p, set, &first, &is_set) < 0)
		return -EINVAL;
	if (is_set)
		return 0;
	last = first;
	if (p->at[0] == '-' && p->at[1] != ']' && p->at[1] != '\0') {
		p->at++;
		if (class_item(p, set, &last, &is_set) < 0)
			return -EINVAL;
		if (is_set || last < first)
			return refuse(p, "has a class with a range that is not valid");
	}
	set_add_range(set, first, last);
	return 0;
}

static int parse_class(struct parser *p)
{
	bool is_inverted = *p->at == '^', is_first = true;
	struct set s = {0};

	p->at += is_inverted;
	while (*p->at != ']' || is_first) {
		if (class_range(p, &s) < 0)
			return -EINVAL;
		is_first = false;
	}
	p->at++;
	if (p->ignores_case)
		set_add_cases(&s);
	if (is_inverted)
		set_invert(&s);
	return emit_set(p, &s);
}

static int parse_dot(struct parser *p)
{
	struct set s = {0};

	if (!p->dot_is_all)
		set_add(&s, '\n');
	set_invert(&s);
	return emit_set(p, &s);
}

static int parse_choice(struct parser *p);

/* After "(?". *ret_is_group: a new group follows, not flags for the rest of the current one. */
static int parse_flags(struct parser *p, bool *ret_is_group)
{
	bool value = true;

	for (;; p->at++) {
		switch (*p->at) {
		case 'i':
			p->ignores_case = value;
			break;
		case 's':
			p->dot_is_all = value;
			break;
		case '-':
			value = false;
			break;
		case ':':
		case ')':
			*ret_is_group = *p->at++ == ':';
			return 0;
		default:
			return refuse(p, "has a group of a kind that takes backtracking, or flags "
			                 "other than i and s");
		}
	}
}

static int skip_name(struct parser *p)
{
	p->at += strspn(p->at, "P<");
	p->at += strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	return *p->at++ == '>' ? 0 : refuse(p, "has a group with a name that is not valid");
}

static int parse_group(struct parser *p)
{
	bool ignores_case = p->ignores_case, dot_is_all = p->dot_is_all, is_group = true;

	if (strncmp(p->at, "?P<", 3) == 0) {
		p->at++;
		if (skip_name(p) < 0)
			return -EINVAL;
	} else if (*p->at == '?') {
		p->at++;
		if (parse_flags(p, &is_group) < 0)
			return -EINVAL;
	}
	if (!is_group)
		return 0;
	if (++p->depth > DEPTH_MAX)
		return refuse(p, "has groups in groups in groups, too deep");
	if (parse_choice(p) < 0)
		return -EINVAL;
	p->depth--;
	p->ignores_case = ignores_case;
	p->dot_is_all = dot_is_all;
	return *p->at++ == ')' ? 0 : refuse(p, "has a group without its ')'");
}

/* The bytes of one character are parsed as one unit. */
static int parse_literal(struct parser *p)
{
	int r;

	do
		r = emit_byte(p, (unsigned char)*p->at++);
	while (r == 0 && ((unsigned char)*p->at & 0xc0) == 0x80);
	return r;
}

static int parse_atom(struct parser *p)
{
	char c = *p->at;

	if (strchr("*+?", c))
		return refuse(p, "repeats nothing");
	if (!strchr("([.^$\\", c))
		return parse_literal(p);
	p->at++;
	switch (c) {
	case '(':
		return parse_group(p);
	case '[':
		return parse_class(p);
	case '.':
		return parse_dot(p);
	case '^':
		return emit(p, OP_BEGIN, 0, 0);
	case '$':
		return emit(p, OP_END, 0, 0);
	default:
		return parse_escape(p);
	}
}

static int append_copy(struct parser *p, const struct step *from, int n)
{
	for (int i = 0; i < n; i++)
		if (emit(p, from[i].op, from[i].x, from[i].y) < 0)
			return -EINVAL;
	return 0;
}

static int make_star(struct parser *p, int start)
{
	int n = p->r->n - start;

	return insert(p, start, OP_FORK, 1, n + 2) < 0 ? -EINVAL : emit(p, OP_JUMP, -(n + 1), 0);
}

static int make_optional(struct parser *p, int start)
{
	return insert(p, start, OP_FORK, 1, p->r->n - start + 1);
}

/* Repeats the piece that begins at start, from least to most times. */
static int repeat(struct parser *p, int start, unsigned least, unsigned most)
{
	struct step once[REGEX_STATES_MAX];
	int n = p->r->n - start, r = 0;

	memcpy(once, &p->r->steps[start], (size_t)n * sizeof(*once));
	p->r->n = start;
	for (unsigned i = 0; i < least && r == 0; i++)
		r = append_copy(p, once, n);
	for (unsigned i = least; i < most && r == 0; i++) {
		int at = p->r->n;

		r = append_copy(p, once, n);
		if (r == 0)
			r = most == NO_LIMIT ? make_star(p, at) : make_optional(p, at);
		if (most == NO_LIMIT)
			break;
	}
	return r;
}

static int parse_number(struct parser *p, unsigned *ret)
{
	unsigned n = 0;

	if (!isdigit((unsigned char)*p->at))
		return -EINVAL;
	while (isdigit((unsigned char)*p->at) && n <= REPEAT_MAX)
		n = n * 10 + (unsigned)(*p->at++ - '0');
	*ret = n;
	return n > REPEAT_MAX ? -EINVAL : 0;
}

/* Behind '{'. */
static int parse_counts(struct parser *p, unsigned *least, unsigned *most)
{
	int r = parse_number(p, least);

	*most = *least;
	if (r == 0 && *p->at == ',') {
		p->at++;
		*most = NO_LIMIT;
		if (*p->at != '}')
			r = parse_number(p, most);
	}
	if (r < 0 || *p->at++ != '}' || *most < *least)
		return refuse(p, "has '{' without counts of up to 255: write \\{ for the letter");
	return 0;
}

static int parse_repeats(struct parser *p, int start)
{
	while (*p->at && strchr("*+?{", *p->at)) {
		unsigned least = *p->at == '+', most = *p->at == '?' ? 1 : NO_LIMIT;

		if (*p->at++ == '{' && parse_counts(p, &least, &most) < 0)
			return -EINVAL;
		if (repeat(p, start, least, most) < 0)
			return -EINVAL;
		p->at += *p->at == '?'; /* lazy: it finds the same texts */
		if (*p->at && strchr("*+?{", *p->at))
			return refuse(p, "repeats what is repeated: put a group around it");
	}
	return 0;
}

static int parse_sequence(struct parser *p)
{
	while (*p->at && *p->at != '|' && *p->at != ')') {
		int start = p->r->n;

		if (parse_atom(p) < 0 || parse_repeats(p, start) < 0)
			return -EINVAL;
	}
	return 0;
}

/*
 * a|b|c becomes: fork a … jump end, fork b … jump end, c … Until the end is known, the jumps are
 * chained by y, which is then an absolute place.
 */
static int parse_choice(struct parser *p)
{
	int start = p->r->n, last_jump = -1;

	if (parse_sequence(p) < 0)
		return -EINVAL;
	while (*p->at == '|') {
		p->at++;
		if (insert(p, start, OP_FORK, 1, p->r->n - start + 2) < 0 ||
		    emit(p, OP_JUMP, 0, last_jump) < 0)
			return -EINVAL;
		last_jump = p->r->n - 1;
		start = p->r->n;
		if (parse_sequence(p) < 0)
			return -EINVAL;
	}
	while (last_jump >= 0) {
		struct step *jump = &p->r->steps[last_jump];
		int before = jump->y;

		jump->x = p->r->n - last_jump;
		jump->y = 0;
		last_jump = before;
	}
	return 0;
}

int regex_new(const char *text, bool ignores_case, struct regex **ret, const char **why)
{
	struct parser p = {
		.r = xnew0(struct regex), .at = text, .why = why, .ignores_case = ignores_case};
	int r = strlen(text) > REGEX_TEXT_MAX ? refuse(&p, "has more than 1024 bytes")
	        : *text == '\0'               ? refuse(&p, "is empty")
	                                      : parse_choice(&p);

	if (r == 0 && *p.at)
		r = refuse(&p, "has a ')' without its group");
	if (r == 0)
		r = emit(&p, OP_MATCH, 0, 0);
	if (r < 0) {
		regex_free(p.r);
		return r;
	}
	*ret = p.r;
	return 0;
}

void regex_free(struct regex *r)
{
	free(r);
}

size_t regex_states(const struct regex *r)
{
	return (size_t)r->n;
}
