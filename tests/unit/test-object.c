// SPDX-License-Identifier: Apache-2.0
/* What is kept in a store of objects: chunks, manifests, seals, names, and what nobody needs. */
#include "base/id.h"
#include "object/object_collect.h"
#include "object/object_listing.h"
#include "object/object_location.h"
#include "object/object_manifest.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static struct object_keys keys_of(uint8_t byte)
{
	uint8_t key[OBJECT_KEY];
	struct object_keys k;

	memset(key, byte, sizeof(key));
	object_keys_derive(key, &k);
	return k;
}

static uint32_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(*seed >> 33);
}

static uint8_t *noise(size_t len, uint64_t seed)
{
	uint8_t *data = xcalloc(len, 1);

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)next(&seed);
	return data;
}

TEST(a_chunk_comes_back_as_it_was)
{
	static const size_t lens[] = {1,           2, 15, 16, 17, 4096, 65537, OBJECT_CHUNK - 1,
	                              OBJECT_CHUNK};
	const struct object_keys k = keys_of(1);

	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		auto_free uint8_t *data = noise(lens[i], 7 + i);
		auto_free uint8_t *stored = xcalloc(lens[i] + OBJECT_TAG, 1);
		auto_free uint8_t *again = xcalloc(lens[i], 1);
		struct digest name;

		object_chunk_name(&k, data, lens[i], &name);
		CHECK_INT(object_chunk_seal(&k, &name, data, lens[i], stored), 0);
		CHECK_INT(object_chunk_open(&k, &name, stored, lens[i] + OBJECT_TAG, again), 0);
		CHECK_MEM(again, lens[i], data, lens[i]);
	}
}

TEST(equal_bytes_of_a_project_are_one_object_and_of_two_have_nothing_in_common)
{
	const struct object_keys one = keys_of(1), two = keys_of(2);
	auto_free uint8_t *data = noise(1000, 3);
	uint8_t a[1000 + OBJECT_TAG], b[sizeof(a)], c[sizeof(a)], out[1000];
	struct digest name, same, other;

	object_chunk_name(&one, data, 1000, &name);
	object_chunk_name(&one, data, 1000, &same);
	object_chunk_name(&two, data, 1000, &other);
	CHECK(digest_equal(&name, &same));
	CHECK(!digest_equal(&name, &other));
	CHECK_INT(object_chunk_seal(&one, &name, data, 1000, a), 0);
	CHECK_INT(object_chunk_seal(&one, &name, data, 1000, b), 0);
	CHECK_INT(object_chunk_seal(&two, &other, data, 1000, c), 0);
	CHECK_MEM(a, sizeof(a), b, sizeof(b));
	CHECK(memcmp(a, c, sizeof(a)) != 0);
	CHECK_INT(object_chunk_open(&two, &other, a, sizeof(a), out), -EBADMSG);
	CHECK_INT(object_chunk_open(&two, &name, a, sizeof(a), out), -EBADMSG);
	CHECK_INT(object_chunk_open(&one, &name, a, sizeof(a), out), 0); /* the control */
}

TEST(no_changed_byte_and_no_other_length_of_a_chunk_is_taken)
{
	const struct object_keys k = keys_of(1);
	auto_free uint8_t *data = noise(300, 5);
	uint8_t stored[300 + OBJECT_TAG], out[300];
	struct digest name, wrong;

	object_chunk_name(&k, data, 300, &name);
	CHECK_INT(object_chunk_seal(&k, &name, data, 300, stored), 0);
	for (size_t i = 0; i < sizeof(stored); i++) {
		stored[i] ^= 1;
		memset(out, 0x55, sizeof(out));
		CHECK_INT(object_chunk_open(&k, &name, stored, sizeof(stored), out), -EBADMSG);
		CHECK_INT(out[0] | out[299], 0); /* nothing that was not checked is left */
		stored[i] ^= 1;
	}
	for (size_t len = 0; len < sizeof(stored); len++)
		CHECK_INT(object_chunk_open(&k, &name, stored, len, out), -EBADMSG);
	CHECK_INT(object_chunk_open(&k, &name, stored, OBJECT_STORED_MAX + 1, out), -EBADMSG);
	wrong = name;
	wrong.bytes[31] ^= 0x80;
	CHECK_INT(object_chunk_open(&k, &wrong, stored, sizeof(stored), out), -EBADMSG);
	CHECK_INT(object_chunk_open(&k, &name, stored, sizeof(stored), out), 0);
}

TEST(a_chunk_of_other_bytes_under_a_name_of_ones_own_key_is_refused)
{
	const struct object_keys k = keys_of(1);
	uint8_t stored[4 + OBJECT_TAG], out[4];
	struct digest name;

	object_chunk_name(&k, "good", 4, &name);
	CHECK_INT(object_chunk_seal(&k, &name, "evil", 4, stored), 0); /* by who has the key */
	CHECK_INT(object_chunk_open(&k, &name, stored, sizeof(stored), out), -EBADMSG);
}

TEST(zeros_alone_have_no_name)
{
	const struct object_keys k = keys_of(1);
	auto_free uint8_t *zeros = xcalloc(OBJECT_CHUNK, 1);
	struct digest name;

	object_chunk_name(&k, zeros, OBJECT_CHUNK, &name);
	CHECK(digest_is_zero(&name));
	object_chunk_name(&k, zeros, 1, &name);
	CHECK(digest_is_zero(&name));
	zeros[OBJECT_CHUNK - 1] = 1;
	object_chunk_name(&k, zeros, OBJECT_CHUNK, &name);
	CHECK(!digest_is_zero(&name));
}

TEST(a_projects_key_opens_for_its_cluster_and_project_alone)
{
	const uint8_t cluster[OBJECT_KEY] = {1}, other[OBJECT_KEY] = {2}, key[OBJECT_KEY] = {3, 4};
	char wrapped[OBJECT_WRAPPED_TEXT], again[OBJECT_WRAPPED_TEXT];
	uint8_t out[OBJECT_KEY];

	CHECK_INT(object_key_wrap(cluster, "cl_a", "prj_a", key, wrapped), 0);
	CHECK_INT(object_key_wrap(cluster, "cl_a", "prj_a", key, again), 0);
	CHECK(strcmp(wrapped, again) != 0);
	CHECK_INT(object_key_unwrap(cluster, "cl_a", "prj_a", wrapped, out), 0);
	CHECK_MEM(out, sizeof(out), key, sizeof(key));
	CHECK_INT(object_key_unwrap(other, "cl_a", "prj_a", wrapped, out), -EBADMSG);
	CHECK_INT(object_key_unwrap(cluster, "cl_b", "prj_a", wrapped, out), -EBADMSG);
	CHECK_INT(object_key_unwrap(cluster, "cl_a", "prj_b", wrapped, out), -EBADMSG);
	CHECK_INT(object_key_unwrap(cluster, "cl_a", "prj_a", "", out), -EBADMSG);
	wrapped[10] = wrapped[10] == 'A' ? 'B' : 'A';
	CHECK_INT(object_key_unwrap(cluster, "cl_a", "prj_a", wrapped, out), -EBADMSG);
}

static struct object_manifest manifest_of(uint64_t size, size_t n_bases, uint64_t seed)
{
	struct object_manifest m = {
		.claim = {.kind = OBJECT_IMAGE, .size = size, .digest = {{1, 2}}, .class = {{3}}},
		.seal = {{9}},
		.n_bases = n_bases,
		.n_chunks = object_chunks_of(size)};

	for (size_t i = 0; i < n_bases; i++)
		m.bases[i].bytes[0] = (uint8_t)(i + 1);
	m.chunks = xcalloc(m.n_chunks, DIGEST_LEN);
	for (size_t i = 0; i < m.n_chunks; i++)
		for (size_t b = 0; b < DIGEST_LEN; b++)
			m.chunks[i].bytes[b] = (uint8_t)next(&seed);
	return m;
}

TEST(what_a_manifest_says_is_read_again)
{
	uint64_t seed = 42;

	for (int round = 0; round < 300; round++) {
		struct object_manifest m =
			manifest_of(1 + next(&seed) % (64U << 20), next(&seed) % 9, seed);
		struct object_manifest back;
		struct buf text = BUF_INIT(OBJECT_MANIFEST_MAX);

		CHECK_INT(object_manifest_write(&m, &text), 0);
		CHECK_INT(object_manifest_read(text.data, text.len, &back), 0);
		CHECK_INT(back.claim.size, m.claim.size);
		CHECK_INT(back.n_bases, m.n_bases);
		CHECK_MEM(back.bases, sizeof(back.bases), m.bases, sizeof(m.bases));
		CHECK_MEM(back.chunks, back.n_chunks * DIGEST_LEN, m.chunks,
		          m.n_chunks * DIGEST_LEN);
		CHECK(digest_equal(&back.seal, &m.seal));
		CHECK_INT(object_chunk_len(m.claim.size, 0), MIN(m.claim.size, OBJECT_CHUNK));
		object_manifest_done(&m);
		object_manifest_done(&back);
		buf_done(&text);
	}
}

static void refuse(size_t at, uint8_t byte, const char *what)
{
	struct object_manifest m = manifest_of(9U << 20, 2, 1), back = {0};
	struct buf text = BUF_INIT(OBJECT_MANIFEST_MAX);
	int r;

	CHECK_INT(object_manifest_write(&m, &text), 0);
	CHECK(at < text.len);
	text.data[at] = (char)byte;
	r = object_manifest_read(text.data, text.len, &back);
	if (r != -EBADMSG)
		(void)fprintf(stderr, "taken: %s\n", what);
	CHECK_INT(r, -EBADMSG);
	CHECK(!back.chunks);
	object_manifest_done(&m);
	buf_done(&text);
}

TEST(a_manifest_that_does_not_hold_together_is_refused)
{
	struct object_manifest m = manifest_of(9U << 20, 2, 1), back;
	struct buf text = BUF_INIT(OBJECT_MANIFEST_MAX);

	refuse(0, 'C', "another magic");
	refuse(8, 0, "no kind");
	refuse(8, OBJECT_KIND_END, "a kind that is not there");
	refuse(8, OBJECT_DISK, "a disk with bases");
	refuse(12, 3, "a base more");
	refuse(12, 255, "255 bases");
	refuse(16, 2, "a chunk less than the size has");
	refuse(19, 0x80, "two thousand million chunks");
	refuse(20, 1, "a hole that is not zero");
	refuse(31, 0x7f, "a size beyond all");
	refuse(32, 1, "an image with a generation");
	CHECK_INT(object_manifest_write(&m, &text), 0);
	for (size_t len = 0; len < text.len; len++)
		CHECK_INT(object_manifest_read(text.data, len, &back), -EBADMSG);
	CHECK_INT(buf_append(&text, "", 1), 0);
	CHECK_INT(object_manifest_read(text.data, text.len, &back), -EBADMSG);
	m.claim.size++;
	m.n_chunks--;
	CHECK_INT(object_manifest_write(&m, &text), -EINVAL);
	object_manifest_done(&m);
	buf_done(&text);
}

TEST(a_manifest_opens_under_its_own_name_alone)
{
	const struct object_keys k = keys_of(1), foreign = keys_of(2);
	const struct digest image = {{1}}, other = {{2}};
	struct digest name, later, elsewhere, wrong;
	struct buf stored = BUF_INIT(4096), out = BUF_INIT(4096);

	object_manifest_name(&k, OBJECT_DISK, &image, 4, &name);
	object_manifest_name(&k, OBJECT_DISK, &image, 5, &later);
	object_manifest_name(&k, OBJECT_DISK, &other, 4, &wrong);
	object_manifest_name(&foreign, OBJECT_DISK, &image, 4, &elsewhere);
	CHECK(!digest_equal(&name, &later) && !digest_equal(&name, &elsewhere));
	CHECK_INT(object_manifest_seal(&k, &name, "text", 4, &stored), 0);
	/* What a bucket could answer instead: an older one, another's, another project's. */
	CHECK_INT(object_manifest_open(&k, &later, stored.data, stored.len, &out), -EBADMSG);
	CHECK_INT(object_manifest_open(&k, &wrong, stored.data, stored.len, &out), -EBADMSG);
	CHECK_INT(object_manifest_open(&foreign, &name, stored.data, stored.len, &out), -EBADMSG);
	CHECK_INT(object_manifest_open(&k, &name, stored.data, OBJECT_NONCE + OBJECT_TAG, &out),
	          -EBADMSG);
	CHECK_INT(object_manifest_open(&k, &name, stored.data, stored.len, &out), 0);
	CHECK_MEM(out.data, out.len, "text", 4);
	buf_done(&stored);
	buf_done(&out);
}

TEST(a_seal_is_of_one_digest_kind_class_size_and_generation)
{
	const uint8_t key[OBJECT_SEAL_KEY] = {1}, other[OBJECT_SEAL_KEY] = {2};
	const struct object_claim claim = {
		.kind = OBJECT_MEMORY, .size = 7, .generation = 3, .digest = {{5}}, .class = {{6}}};
	struct object_claim not [5] = {claim, claim, claim, claim, claim};
	struct digest seal;

	not [0].kind = OBJECT_DISK;
	not [1].size++;
	not [2].generation--;
	not [3].digest.bytes[31] = 1;
	not [4].class.bytes[0] = 0;
	object_seal_make(key, &claim, &seal);
	CHECK(object_seal_fits(key, &claim, &seal));
	CHECK(!object_seal_fits(other, &claim, &seal));
	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		CHECK(!object_seal_fits(key, &not [i], &seal));
	seal.bytes[0] ^= 1;
	CHECK(!object_seal_fits(key, &claim, &seal));
}

static void check_place(const char *text, const char *endpoint, const char *url, const char *host,
                        const char *path)
{
	struct object_location l;

	CHECK_INT(object_location_parse(text, endpoint, NULL, &l, NULL), 0);
	CHECK_STR(l.url, url);
	CHECK_STR(l.host, host);
	CHECK_STR(l.path, path);
	CHECK_STR(l.region, "us-east-1");
	object_location_done(&l);
}

TEST(a_bucket_is_asked_by_path_or_by_a_host_of_its_own)
{
	struct object_location l;

	check_place("s3://bucket", NULL, "https://bucket.s3.us-east-1.amazonaws.com",
	            "bucket.s3.us-east-1.amazonaws.com", "");
	check_place("s3://bucket/a/b/", NULL, "https://bucket.s3.us-east-1.amazonaws.com",
	            "bucket.s3.us-east-1.amazonaws.com", "/a/b");
	check_place("s3://bucket/a", "http://store.example:9000", "http://store.example:9000",
	            "store.example:9000", "/bucket/a");
	check_place("s3://bucket", "https://store.example:443", "https://store.example",
	            "store.example", "/bucket");
	check_place("s3://bucket", "http://{bucket}.store.example:80",
	            "http://bucket.store.example", "bucket.store.example", "");
	CHECK_INT(object_location_parse("dir:///mnt/a", NULL, NULL, &l, NULL), 0);
	CHECK_STR(l.directory, "/mnt/a");
	object_location_done(&l);
}

TEST(what_is_no_place_for_objects_is_refused_by_its_setting)
{
	static const struct {
		const char *text, *endpoint, *region, *field;
	} rows[] = {
		{"", NULL, NULL, "cluster.objects"},
		{"/mnt/a", NULL, NULL, "cluster.objects"},
		{"dir://mnt/a", NULL, NULL, "cluster.objects"},
		{"dir:///", NULL, NULL, "cluster.objects"},
		{"s3://", NULL, NULL, "cluster.objects"},
		{"s3://ab", NULL, NULL, "cluster.objects"},
		{"s3://Bucket", NULL, NULL, "cluster.objects"},
		{"s3://bucket/a//b", NULL, NULL, "cluster.objects"},
		{"s3://bucket/../b", NULL, NULL, "cluster.objects"},
		{"s3://bucket/a b", NULL, NULL, "cluster.objects"},
		{"s3://bucket/a\r\nX: y", NULL, NULL, "cluster.objects"},
		{"s3://bucket", "store.example", NULL, "cluster.objects_endpoint"},
		{"s3://bucket", "https://", NULL, "cluster.objects_endpoint"},
		{"s3://bucket", "https://store.example/a", NULL, "cluster.objects_endpoint"},
		{"s3://bucket", "https://u@store.example", NULL, "cluster.objects_endpoint"},
		{"s3://bucket", "https://store.example:", NULL, "cluster.objects_endpoint"},
		{"s3://bucket", "https://store.example:0", NULL, "cluster.objects_endpoint"},
		{"s3://bucket", "https://store.example:99999", NULL, "cluster.objects_endpoint"},
		{"s3://bucket", NULL, "", "cluster.objects_region"},
		{"s3://bucket", NULL, "a/b", "cluster.objects_region"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct object_location l;
		struct err err = {0};

		CHECK(object_location_parse(rows[i].text, rows[i].endpoint, rows[i].region, &l,
		                            &err) < 0);
		CHECK_STR(err.field, rows[i].field);
	}
}

TEST(what_nobody_needs_is_removed_behind_its_grace_and_nothing_else)
{
	enum { N = 400 };
	const uint64_t now_us = 1000 * OBJECT_HOUR_US;
	uint64_t seed = 11;

	for (int round = 0; round < 200; round++) {
		struct object_row rows[N], before[N];
		struct object_filter *needed = object_filter_new(N, next(&seed));
		bool is_needed[N] = {0};
		size_t n, n_wanted = 0, n_old = 0;

		for (size_t i = 0; i < N; i++) {
			uint32_t *words = (uint32_t *)rows[i].name.bytes;

			for (size_t k = 0; k < DIGEST_LEN / 4; k++)
				words[k] = next(&seed);
			rows[i].name.bytes[30] = (uint8_t)i;
			rows[i].name.bytes[31] = (uint8_t)(i >> 8);
			rows[i].written_us =
				now_us + OBJECT_HOUR_US - next(&seed) % 50 * OBJECT_HOUR_US;
			is_needed[i] = next(&seed) % 2;
			if (is_needed[i])
				object_filter_add(needed, &rows[i].name);
		}
		memcpy(before, rows, sizeof(rows));
		n = object_collect(rows, N, needed, now_us);
		for (size_t i = 0; i < N; i++) {
			n_old += before[i].written_us + OBJECT_GRACE_US < now_us;
			n_wanted +=
				!is_needed[i] && before[i].written_us + OBJECT_GRACE_US < now_us;
		}
		/* Some that nobody needs may be kept by mistake, and none the other way round. */
		CHECK(n <= n_wanted && n + 10 >= n_wanted);
		CHECK(n_wanted > 0 && n_wanted < n_old);
		for (size_t i = 0; i < n; i++) {
			const size_t at = rows[i].name.bytes[30] + rows[i].name.bytes[31] * 256U;

			CHECK(!is_needed[at] && rows[i].written_us + OBJECT_GRACE_US < now_us);
			CHECK(!object_is_fresh(rows[i].written_us, now_us));
		}
		object_filter_free(needed);
	}
}

TEST(what_is_needed_is_never_taken_for_unneeded_however_much_it_is)
{
	struct object_filter *small = object_filter_new(0, 5),
			     *large = object_filter_new(300000, 5);
	struct digest name = {0};
	size_t n_mistakes = 0;

	for (uint64_t i = 0; i < 300000; i++) {
		uint64_t seed = i;

		for (size_t k = 0; k < DIGEST_LEN; k++)
			name.bytes[k] = (uint8_t)(next(&seed) >> 7);
		object_filter_add(small, &name);
		object_filter_add(large, &name);
		CHECK(object_filter_has(small, &name) && object_filter_has(large, &name));
	}
	for (uint64_t i = 300000; i < 400000; i++) {
		uint64_t seed = i;

		for (size_t k = 0; k < DIGEST_LEN; k++)
			name.bytes[k] = (uint8_t)(next(&seed) >> 7);
		n_mistakes += object_filter_has(large, &name);
	}
	CHECK(n_mistakes < 2000); /* of a hundred thousand; one in a hundred is what is meant */
	object_filter_free(small);
	object_filter_free(large);
}

static int count_listed(const struct object_entry *one, void *arg)
{
	size_t *n = arg;

	CHECK(one->written_us > 0);
	(*n)++;
	return 0;
}

TEST(a_page_of_a_listing_is_read_and_one_of_another_shape_is_not)
{
#define ONE(key)                                                                                   \
	"<Contents><Key>" key "</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>"        \
	"<ETag>&quot;x&quot;</ETag><Size>12</Size></Contents>"
	static const struct {
		const char *text;
		int result;
		size_t n;
		const char *last;
	} rows[] = {
		{"<?xml version='1.0'?><ListBucketResult><IsTruncated>true</IsTruncated>" ONE("a")
	                 ONE("b&amp;c") "</ListBucketResult>",
	         1, 2, "b&c"},
		{"<ListBucketResult xmlns='x'><IsTruncated>false</IsTruncated>" ONE("a"), 0, 1,
	         "a"},
		{"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>", 0, 0, ""},
		{"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", -EPROTO},
		{"<ListBucketResult>" ONE("a"), -EPROTO},
		{"<Error><Code>x</Code><IsTruncated>false</IsTruncated></Error>", -EPROTO},
		{"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a", -EPROTO},
		{"<ListBucketResult><IsTruncated>false</IsTruncated>" ONE("a&#10;"), -EPROTO},
		{"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>"
	         "<LastModified>yesterday</LastModified><Size>1</Size></Contents>",
	         -EPROTO},
		{"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>"
	         "<LastModified>2009-10-12T17:50:30Z</LastModified></Contents>",
	         -EPROTO},
		{"", -EPROTO},
	};
#undef ONE

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_free char *text = xstrdup(rows[i].text);
		char last[OBJECT_KEY_MAX + 1];
		size_t n = 0;

		CHECK_INT(object_listing_read(text, count_listed, &n, last), rows[i].result);
		if (rows[i].result < 0)
			continue;
		CHECK_INT(n, rows[i].n);
		CHECK_STR(last, rows[i].last);
	}
}

TEST(a_name_is_read_as_it_was_written_and_no_other_is)
{
	struct digest name = {{0xab, 1, 2}}, back;
	char text[OBJECT_NAME_SIZE];

	object_name(true, &name, text);
	CHECK_INT(object_name_parse(true, text, &back), 0);
	CHECK(digest_equal(&name, &back));
	CHECK(object_name_parse(false, text, &back) < 0);
	text[strlen(object_folder(true))] = 'f'; /* in another folder than its own */
	CHECK(object_name_parse(true, text, &back) < 0);
	CHECK(object_name_parse(true, "v1/manifests/", &back) < 0);
	CHECK(object_name_parse(true, "v1/manifests/ab/../../x", &back) < 0);
}

TEST(an_upload_that_counts_on_a_chunk_ends_before_it_may_be_removed)
{
	/* The chunk is as old as may be counted on, the upload as long as it may be, and the two
	 * clocks as far apart as is borne. */
	const uint64_t written_us = 500 * OBJECT_HOUR_US;
	const uint64_t begun_us = written_us + OBJECT_FRESH_US;
	const uint64_t row_us = begun_us + OBJECT_UPLOAD_US;
	struct object_row row = {.name = {{1}}, .written_us = written_us};
	struct object_filter *none = object_filter_new(0, 1);

	CHECK(object_is_fresh(written_us, begun_us));
	CHECK(!object_is_fresh(written_us, begun_us + 1));
	CHECK_INT(object_collect(&row, 1, none, row_us + OBJECT_SKEW_US), 0);
	CHECK_INT(object_collect(&row, 1, none, row_us + OBJECT_SKEW_US + 1), 1);
	object_filter_free(none);
}
