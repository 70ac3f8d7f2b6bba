// SPDX-License-Identifier: Apache-2.0
/* Images and templates as the gateway keeps them, on a broker that only answers. */
#include "sandbox/storage/template.h"

#include "sandbox-rig.h"
#include "sandbox/storage/image.h"

#include <string.h>

static struct digest digest_of(uint8_t n)
{
	struct digest d = {{n}};

	return d;
}

struct sealed { /* of an image_sealed_fn */
	unsigned calls, progress;
	struct digest image;
	uint64_t bytes;
	struct err err;
};

static void note_sealed(const struct digest *image, uint64_t bytes, const struct err *err,
                        void *arg)
{
	struct sealed *s = arg;

	s->calls++;
	if (image)
		s->image = *image;
	s->bytes = bytes;
	if (err)
		s->err = *err;
}

static void note_progress(uint64_t bytes, void *arg)
{
	struct sealed *s = arg;

	s->progress++;
	s->bytes = bytes;
}

static struct image_seal *begin_seal(struct rig *r, struct sandbox *s, struct sealed *ret)
{
	const struct image_spec spec = {.progress = note_progress};
	struct image_seal *seal = NULL;
	struct err err = {0};

	(void)!image_seal(s, &spec, note_sealed, ret, &seal, &err);
	CHECK_STR(err.message, "");
	UNTIL(&r->broker, r->broker.seal_tag != 0);
	return seal;
}

/* An image of that digest, which nobody has named. */
static void make_image(struct rig *r, uint8_t n)
{
	struct sealed sealed = {0};
	struct sandbox *s = rig_create(r, NULL);
	const struct digest image = digest_of(n);

	(void)begin_seal(r, s, &sealed);
	fake_broker_seal(&r->broker, &image, 1000, NULL);
	UNTIL(&r->broker, sealed.calls > 0);
	CHECK(digest_equal(&sealed.image, &image));
	rig_delete(r, s);
}

static struct template *publish(struct rig *r, const char *project, const char *name, uint8_t n)
{
	const struct template_spec spec = {
		.project_id = project, .name = name, .image = digest_of(n)};
	struct template *t = NULL;
	struct err err = {0};

	(void)!template_publish(r->fleet, &spec, &t, &err);
	CHECK_STR(err.message, "");
	return t;
}

static void remove_template(struct template *t)
{
	struct err err = {0};

	(void)!template_remove(t, &err);
	CHECK_STR(err.message, "");
}

static bool has(const struct rig *r, uint8_t n)
{
	const struct digest d = digest_of(n);

	return image_has(r->fleet, &d, NULL);
}

TEST(a_seal_tells_how_far_it_is_and_then_its_image)
{
	struct rig r = {0};
	struct sealed sealed = {0};
	const struct digest none = {{0}}, image = digest_of(1);
	struct image_seal *seal;

	rig_start(&r);
	seal = begin_seal(&r, rig_create(&r, NULL), &sealed);
	fake_broker_seal(&r.broker, &none, 700, NULL);
	UNTIL(&r.broker, sealed.progress == 1);
	CHECK_INT(sealed.bytes, 700);
	CHECK_INT(image_seal_bytes(seal), 700);
	CHECK_INT(sealed.calls, 0);
	fake_broker_seal(&r.broker, &image, 900, NULL);
	UNTIL(&r.broker, sealed.calls == 1);
	CHECK_INT(sealed.bytes, 900);
	CHECK(has(&r, 1));
	rig_stop(&r);
}

TEST(a_seal_that_fails_tells_why_and_leaves_no_image)
{
	struct rig r = {0};
	struct sealed sealed = {0};
	const struct digest none = {{0}};
	struct err full;

	rig_start(&r);
	(void)begin_seal(&r, rig_create(&r, NULL), &sealed);
	(void)err_set(&full, ERR_DISK_FULL, 0, "the host's disk has no room for it");
	fake_broker_seal(&r.broker, &none, 0, &full);
	UNTIL(&r.broker, sealed.calls == 1);
	CHECK_INT(sealed.err.code, ERR_DISK_FULL);
	CHECK(!has(&r, 1));
	rig_stop(&r);
}

TEST(a_seal_is_cancelled_by_its_own_tag)
{
	struct rig r = {0};
	struct sealed sealed = {0};
	struct image_seal *seal;

	rig_start(&r);
	seal = begin_seal(&r, rig_create(&r, NULL), &sealed);
	image_seal_cancel(seal);
	UNTIL(&r.broker, sealed.calls == 1);
	CHECK_STR(sealed.err.message, "the seal was cancelled");
	rig_stop(&r);
}

TEST(a_sandbox_that_has_ended_without_its_files_cannot_be_sealed)
{
	struct rig r = {0};
	const struct image_spec spec = {0};
	struct sealed sealed = {0};
	struct image_seal *seal;
	struct sandbox *s;
	struct err err = {0};

	rig_start(&r);
	s = rig_create(&r, NULL);
	rig_delete(&r, s);
	CHECK(image_seal(s, &spec, note_sealed, &sealed, &seal, &err) < 0);
	CHECK_INT(err.code, ERR_GONE);
	CHECK_INT(sealed.calls, 0);
	rig_stop(&r);
}

TEST(an_image_that_nobody_wants_goes)
{
	struct rig r = {0};
	const struct digest image = digest_of(1);

	rig_start(&r);
	make_image(&r, 1);
	image_release(r.fleet, &image);
	UNTIL(&r.broker, r.broker.image_removes == 1);
	UNTIL(&r.broker, !has(&r, 1));
	rig_stop(&r);
}

TEST(a_seal_that_ends_in_an_image_which_is_going_can_be_tried_again)
{
	struct rig r = {0};
	struct sealed sealed = {0};
	const struct digest image = digest_of(1);

	rig_start(&r);
	make_image(&r, 1);
	(void)begin_seal(&r, rig_create(&r, NULL), &sealed);
	r.broker.holds_image_removes = true;
	image_release(r.fleet, &image);
	UNTIL(&r.broker, r.broker.image_removes == 1);
	CHECK(!has(&r, 1));
	fake_broker_seal(&r.broker, &image, 1000, NULL);
	UNTIL(&r.broker, sealed.calls == 1);
	CHECK_INT(sealed.err.code, ERR_UNAVAILABLE);
	rig_stop(&r);
}

TEST(an_image_stays_until_its_last_template_is_removed)
{
	struct rig r = {0};
	struct template *first, *second;

	rig_start(&r);
	make_image(&r, 1);
	first = publish(&r, "prj_test", "one", 1);
	second = publish(&r, "prj_test", "two", 1);
	remove_template(first);
	CHECK(has(&r, 1));
	remove_template(second);
	UNTIL(&r.broker, r.broker.image_removes == 1);
	rig_stop(&r);
}

TEST(a_template_is_not_removed_under_a_sandbox)
{
	struct rig r = {0};
	const struct sandbox_spec spec = {.template = "mine"};
	struct outcome o = {0};
	struct template *t;
	struct err err = {0};

	rig_start(&r);
	make_image(&r, 1);
	t = publish(&r, "prj_test", "mine", 1);
	(void)!sandbox_create(r.fleet, "prj_test", &spec, rig_note, &o, &err);
	CHECK_STR(err.message, "");
	UNTIL(&r.broker, o.calls > 0);
	CHECK(template_remove(t, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	rig_delete(&r, o.s);
	remove_template(t);
	UNTIL(&r.broker, r.broker.image_removes == 1);
	rig_stop(&r);
}

TEST(a_name_that_is_replaced_lets_its_old_image_go)
{
	struct rig r = {0};
	struct template_spec spec = {.project_id = "prj_test", .name = "mine"};
	struct template *t;
	struct err err = {0};

	rig_start(&r);
	make_image(&r, 1);
	make_image(&r, 2);
	(void)publish(&r, "prj_test", "mine", 1);
	spec.image = digest_of(2);
	CHECK(template_publish(r.fleet, &spec, &t, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	spec.is_replacing = true;
	CHECK_INT(template_publish(r.fleet, &spec, &t, &err), 0);
	UNTIL(&r.broker, r.broker.image_removes == 1);
	CHECK(template_find(r.fleet, "prj_test", "mine") == t);
	CHECK(has(&r, 2));
	rig_stop(&r);
}

TEST(a_template_of_an_image_that_is_not_there_is_refused)
{
	struct rig r = {0};
	const struct template_spec spec = {.name = "ghost", .image = digest_of(9)};
	struct template *t;
	struct err err = {0};

	rig_start(&r);
	CHECK(template_publish(r.fleet, &spec, &t, &err) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	rig_stop(&r);
}

TEST(a_projects_own_name_comes_before_a_shared_one_and_that_before_an_alias)
{
	struct rig r = {0};
	struct template *shared, *own, *node;

	rig_start(&r);
	make_image(&r, 1);
	shared = publish(&r, NULL, "python", 1);
	CHECK(template_find(r.fleet, "prj_test", "python") == shared);
	CHECK(template_find(r.fleet, "prj_test", "python3.13") == shared);
	own = publish(&r, "prj_test", "python", 1);
	CHECK(template_find(r.fleet, "prj_test", "python") == own);
	CHECK(template_find(r.fleet, "prj_other", "python") == shared);
	CHECK(template_find(r.fleet, "prj_other", template_id(own)) == NULL);
	CHECK(template_find(r.fleet, "prj_test", "node24") == NULL);
	node = publish(&r, "prj_test", "node24", 1);
	CHECK(template_find(r.fleet, "prj_test", "node24") == node);
	rig_stop(&r);
}

TEST(what_cannot_be_a_name_is_refused)
{
	static const char *const names[] = {"",   "host", "A",   "_a",   "a_",
	                                    "-a", "a-",   "a/b", "tpl_x"};
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(template_check_name(names[i], &err) < 0);
	CHECK_INT(template_check_name("python3.13-datasci", &err), 0);
}

TEST(templates_outlive_the_gateway_and_strays_of_its_store_do_not)
{
	struct rig r = {0};
	const struct template *t;

	rig_start(&r);
	make_image(&r, 1);
	make_image(&r, 2);
	(void)publish(&r, "prj_test", "mine", 1);
	r.broker.images[2] = (struct image_info){.digest = digest_of(3), .bytes = 5, .keeper = 77};
	rig_go_away(&r);
	rig_come_back(&r);
	t = template_find(r.fleet, "prj_test", "mine");
	CHECK(t != NULL);
	CHECK(has(&r, 1) && has(&r, 2) && has(&r, 3));
	image_settle(r.fleet, NULL, NULL);
	UNTIL(&r.broker, r.broker.image_removes == 1);
	UNTIL(&r.broker, !has(&r, 2)); /* nobody named it; 3 is another store's */
	CHECK(has(&r, 1) && has(&r, 3));
	rig_stop(&r);
}
