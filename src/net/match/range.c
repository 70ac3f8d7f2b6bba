// SPDX-License-Identifier: Apache-2.0
/*
 * A table of the addresses that are not public by IANA's registries of special addresses (RFC 6890
 * and its successors). The first row that contains an address decides, so the clouds' metadata
 * addresses come before the ranges that contain them. All IPv6 outside 2000::/3 is unused and
 * therefore closed.
 *
 * Several IPv6 ranges embed an IPv4 address that a router or the kernel would connect to. These
 * ranges are closed, and the embedded address is judged as well, so that naming 64:ff9b::/96 in a
 * policy does not open 64:ff9b::10.0.0.1.
 */
#include "net/match/range.h"

#include <assert.h>
#include <string.h>

enum opening {
	BY_RANGE,   /* a range inside this row's */
	BY_ADDRESS, /* only that of the address alone */
	BY_NOTHING,
};

static const struct {
	const char *name;
	enum opening opening;
	bool is_operators; /* and the operator has to allow it */
} kinds[] = {
	[RANGE_PUBLIC] = {"public", BY_RANGE},
	[RANGE_UNSPECIFIED] = {"unspecified", BY_NOTHING},
	[RANGE_LOOPBACK] = {"loopback", BY_RANGE, true},
	[RANGE_PRIVATE] = {"private", BY_RANGE},
	[RANGE_LINK_LOCAL] = {"link_local", BY_RANGE, true},
	[RANGE_METADATA] = {"metadata", BY_ADDRESS, true},
	[RANGE_SHARED] = {"shared", BY_RANGE},
	[RANGE_MULTICAST] = {"multicast", BY_NOTHING},
	[RANGE_BROADCAST] = {"broadcast", BY_NOTHING},
	[RANGE_DOCUMENTATION] = {"documentation", BY_RANGE},
	[RANGE_BENCHMARK] = {"benchmark", BY_RANGE},
	[RANGE_TRANSITION] = {"transition", BY_RANGE},
	[RANGE_RESERVED] = {"reserved", BY_RANGE},
	[RANGE_HOST] = {"host", BY_ADDRESS, true},
	[RANGE_OPERATOR] = {"operator", BY_NOTHING},
};
static_assert(ARRAY_SIZE(kinds) == RANGE_KIND_COUNT, "a kind has no row");

/* Where a row's addresses embed an IPv4 address. */
enum embedding {
	EMBEDS_NONE,
	EMBEDS_LAST,   /* in the last four bytes */
	EMBEDS_6TO4,   /* behind 2002: */
	EMBEDS_TEREDO, /* the client's, inverted, in the last four bytes */
};

struct row {
	uint8_t prefix;
	enum range_kind kind;
	enum embedding embedding;
	uint8_t bytes[16];
};

/* clang-format off */
static const struct row v4_rows[] = {
	{32, RANGE_METADATA,      0, {169, 254, 169, 254}}, /* AWS, GCP, Azure, and who copied them */
	{32, RANGE_METADATA,      0, {169, 254, 170, 2}},   /* AWS: credentials of ECS tasks */
	{32, RANGE_METADATA,      0, {169, 254, 170, 23}},  /* AWS: credentials of EKS pods */
	{32, RANGE_METADATA,      0, {168, 63, 129, 16}},   /* Azure's wire server */
	{32, RANGE_METADATA,      0, {100, 100, 100, 200}}, /* Alibaba */
	{32, RANGE_METADATA,      0, {192, 0, 0, 192}},     /* Oracle */
	{8,  RANGE_UNSPECIFIED,   0, {0}},
	{8,  RANGE_PRIVATE,       0, {10}},
	{10, RANGE_SHARED,        0, {100, 64}},
	{8,  RANGE_LOOPBACK,      0, {127}},
	{16, RANGE_LINK_LOCAL,    0, {169, 254}},
	{12, RANGE_PRIVATE,       0, {172, 16}},
	{24, RANGE_RESERVED,      0, {192, 0, 0}},          /* protocol assignments, DS-Lite */
	{24, RANGE_DOCUMENTATION, 0, {192, 0, 2}},
	{24, RANGE_TRANSITION,    0, {192, 88, 99}},        /* 6to4 relays */
	{16, RANGE_PRIVATE,       0, {192, 168}},
	{15, RANGE_BENCHMARK,     0, {198, 18}},
	{24, RANGE_DOCUMENTATION, 0, {198, 51, 100}},
	{24, RANGE_DOCUMENTATION, 0, {203, 0, 113}},
	{4,  RANGE_MULTICAST,     0, {224}},
	{32, RANGE_BROADCAST,     0, {255, 255, 255, 255}},
	{4,  RANGE_RESERVED,      0, {240}},
};

static const struct row v6_rows[] = {
	{128, RANGE_METADATA,      0, {0xfd, 0, 0x0e, 0xc2, [14] = 0x02, 0x54}}, /* AWS */
	{128, RANGE_METADATA,      0, {0xfd, 0, 0x0e, 0xc2, [15] = 0x23}},       /* AWS: EKS pods */
	{128, RANGE_METADATA,      0, {0xfd, 0x20, 0, 0xce, [14] = 0x02, 0x54}}, /* GCP */
	{128, RANGE_UNSPECIFIED,   0, {0}},
	{128, RANGE_LOOPBACK,      0, {[15] = 1}},
	{96,  RANGE_TRANSITION,    EMBEDS_LAST, {0}},                            /* ::a.b.c.d */
	{96,  RANGE_TRANSITION,    EMBEDS_LAST, {[8] = 0xff, 0xff}},             /* SIIT */
	{96,  RANGE_TRANSITION,    EMBEDS_LAST, {0, 0x64, 0xff, 0x9b}},          /* NAT64 */
	{48,  RANGE_TRANSITION,    0, {0, 0x64, 0xff, 0x9b, 0, 1}},              /* NAT64, local */
	{32,  RANGE_TRANSITION,    EMBEDS_TEREDO, {0x20, 0x01}},
	{16,  RANGE_TRANSITION,    EMBEDS_6TO4, {0x20, 0x02}},
	{48,  RANGE_BENCHMARK,     0, {0x20, 0x01, 0, 0x02}},
	{23,  RANGE_RESERVED,      0, {0x20, 0x01}},                             /* ORCHID and others */
	{32,  RANGE_DOCUMENTATION, 0, {0x20, 0x01, 0x0d, 0xb8}},
	{20,  RANGE_DOCUMENTATION, 0, {0x3f, 0xff}},
	{7,   RANGE_PRIVATE,       0, {0xfc}},
	{10,  RANGE_LINK_LOCAL,    0, {0xfe, 0x80}},
	{10,  RANGE_PRIVATE,       0, {0xfe, 0xc0}},
	{8,   RANGE_MULTICAST,     0, {0xff}},
	{3,   RANGE_PUBLIC,        0, {0x20}},
	{0,   RANGE_RESERVED,      0, {0}},
};
/* clang-format on */

const char *range_kind_name(enum range_kind kind)
{
	return kinds[kind].name;
}

static const struct row *find_row(const struct address *a)
{
	const struct row *rows = a->bits == 32 ? v4_rows : v6_rows;
	size_t n = a->bits == 32 ? ARRAY_SIZE(v4_rows) : ARRAY_SIZE(v6_rows);

	for (size_t i = 0; i < n; i++) {
		struct cidr range = {.first = {.bits = a->bits}, .prefix = rows[i].prefix};

		memcpy(range.first.bytes, rows[i].bytes, sizeof(rows[i].bytes));
		if (cidr_has(&range, a))
			return &rows[i];
	}
	return NULL;
}

/* The IPv4 address that is embedded in a, if any. */
static bool find_embedded(const struct address *a, struct address *ret)
{
	const struct row *row = find_row(a);
	uint8_t inverted[4];

	if (!row || row->embedding == EMBEDS_NONE)
		return false;
	for (size_t i = 0; i < 4; i++)
		inverted[i] = (uint8_t)~a->bytes[12 + i];
	*ret = address_from_v4(row->embedding == EMBEDS_TEREDO ? inverted
	                       : row->embedding == EMBEDS_6TO4 ? a->bytes + 2
	                                                       : a->bytes + 12);
	return true;
}

static bool any_has(const struct cidr *list, size_t n, const struct address *a)
{
	for (size_t i = 0; i < n; i++)
		if (cidr_has(&list[i], a))
			return true;
	return false;
}

/* The kind of a without its embedded address; *ret_prefix is the prefix length of the range that
 * decided. */
static enum range_kind own_kind(const struct range_site *site, const struct address *a,
                                unsigned *ret_prefix)
{
	const struct row *row = find_row(a);

	*ret_prefix = row ? row->prefix : 0;
	if (any_has(site->never, site->n_never, a))
		return RANGE_OPERATOR;
	/* Nothing opens multicast and the like, even where the address is the host's. */
	if (row && kinds[row->kind].opening == BY_NOTHING)
		return row->kind;
	if (any_has(site->own, site->n_own, a))
		return RANGE_HOST;
	return row ? row->kind : RANGE_PUBLIC;
}

enum range_kind range_kind_of(const struct range_site *site, const struct address *a)
{
	unsigned prefix;
	enum range_kind kind = own_kind(site, a, &prefix);
	struct address inner;

	if (kind == RANGE_TRANSITION && find_embedded(a, &inner)) {
		enum range_kind inner_kind = own_kind(site, &inner, &prefix);

		return inner_kind == RANGE_PUBLIC ? kind : inner_kind;
	}
	return kind;
}

static bool is_named(const struct range_site *site, enum range_kind kind, unsigned prefix,
                     const struct address *a, const struct cidr *named, size_t n_named)
{
	unsigned least = kinds[kind].opening == BY_ADDRESS ? a->bits : prefix;

	if (kinds[kind].opening == BY_NOTHING ||
	    (kinds[kind].is_operators && !any_has(site->may_open, site->n_may_open, a)))
		return false;
	for (size_t i = 0; i < n_named; i++)
		if (named[i].prefix >= least && cidr_has(&named[i], a))
			return true;
	return false;
}

bool range_is_open(const struct range_site *site, const struct address *a, const struct cidr *named,
                   size_t n_named)
{
	struct address each[2] = {*a};
	size_t n = find_embedded(a, &each[1]) ? 2 : 1;

	for (size_t i = 0; i < n; i++) {
		unsigned prefix;
		enum range_kind kind = own_kind(site, &each[i], &prefix);

		if (kind != RANGE_PUBLIC && !is_named(site, kind, prefix, &each[i], named, n_named))
			return false;
	}
	return true;
}

bool range_is_daemon(const struct range_site *site, const struct address *a, uint16_t port)
{
	enum range_kind kind = range_kind_of(site, a);

	if (kind != RANGE_HOST && kind != RANGE_LOOPBACK)
		return false;
	for (size_t i = 0; i < site->n_ports; i++)
		if (site->ports[i] == port)
			return true;
	return false;
}
