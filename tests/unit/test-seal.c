// SPDX-License-Identifier: Apache-2.0
/* A sandbox's root becomes an image, whatever stands in the way. */
#include "base/units.h"
#include "jail-rig.h"

#include "engine/guest/guest.h"
#include "engine/linux/dir_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sealed {
	struct image_build_result result;
	struct err err;
	int n_ends;
} sealed[4];

static size_t n_under_way;

static void on_seal(const struct image_build_result *result, const struct err *err, void *arg)
{
	struct sealed *s = arg;

	if (result && digest_is_zero(&result->image))
		return; /* under way */
	s->n_ends++;
	if (err)
		s->err = *err;
	else
		s->result = *result;
	if (--n_under_way == 0)
		loop_stop(jail_rig.loop);
}

static const struct image_build_spec whole = {
	.epoch_s = 1700000000, .bytes_max = 512 * MIB, .keeper = 77};

static struct image_build *ask(const struct guest_spec *of, const struct image_build_spec *spec,
                               size_t i)
{
	struct image_build *seal = NULL;

	sealed[i] = (struct sealed){0};
	CHECK_INT(jail_engine.build_image(jail_rig.host, of->id, &of->image, spec, on_seal,
	                                  &sealed[i], &seal, &jail_rig.err),
	          0);
	n_under_way++;
	return seal;
}

static void await_seals(void)
{
	if (n_under_way > 0)
		CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK_INT(n_under_way, 0);
}

static struct digest seal_whole(const struct guest_spec *of)
{
	(void)ask(of, &whole, 0);
	await_seals();
	if (sealed[0].err.code != ERR_NONE)
		print_error("%s\n", sealed[0].err.message);
	CHECK_INT(sealed[0].err.code, ERR_NONE);
	CHECK_INT(sealed[0].n_ends, 1);
	return sealed[0].result.image;
}

/* What is in the two directories besides whole images, the skeleton and sandboxes' layers. */
static const char *halves(void)
{
	auto_free char *command = xasprintf("ls %s/templates %s/layers | grep -E '^seal_|gone$'",
	                                    jail_rig.data, jail_rig.data);

	return jail_rig_host_says(command);
}

static void seal_and_start(bool is_plain)
{
	struct guest_spec spec, next;
	struct guest *g;

	jail_rig_set_up(is_plain);
	spec = jail_rig_spec(1);
	spec.image = jail_rig_image("mkdir tree/opt tree/opt/old && touch tree/opt/old/a");
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "root echo new > /etc/new; rm /etc/mark; echo x > /tmp/x; "
	                          "echo y > /run/y; touch /home/user/own; chown 1000:1000 "
	                          "/home/user/own; chmod 600 /home/user/own; rm -r /opt/old; mkdir "
	                          "/opt/old; touch /opt/old/b"),
	          "");
	next = jail_rig_spec(2);
	next.image = seal_whole(&spec);
	CHECK(!digest_equal(&next.image, &spec.image));
	jail_rig_end(g);
	CHECK_STR(halves(), "");
	g = jail_rig_start(&next);
	CHECK_STR(jail_rig_say(g,
	                       "user cat /etc/new; ls /etc/mark /tmp/x /run/y 2>/dev/null; stat -c "
	                       "'%u %a' /home/user/own; ls /opt/old; cat /etc/hostname"),
	          "new\n1000 600\nb\nbell");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(a_sealed_root_is_what_the_sandbox_had_and_starts_the_next, 60)
{
	seal_and_start(/* is_plain= */ false);
}

TEST_FORKED(plain_storage_seals_the_same, 60)
{
	seal_and_start(/* is_plain= */ true);
}

TEST_FORKED(what_is_of_one_machine_or_person_is_left_out, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(true);
	spec = jail_rig_spec(1);
	spec.image = jail_rig_image("mkdir -p tree/root/.ssh tree/etc/ssh tree/var/lib/apt/lists "
	                            "tree/var/log && cd tree && touch root/.ssh/id_rsa "
	                            "root/.ssh/config root/.bash_history root/.netrc "
	                            "etc/ssh/ssh_host_rsa_key etc/ssh/sshd_config "
	                            "var/lib/apt/lists/x var/log/a.log etc/machine-id && cd ..");
	g = jail_rig_start(&spec);
	CHECK_STR(jail_rig_say(g, "root ls -A /root /root/.ssh /etc/ssh; ls /var/lib/apt/lists "
	                          "/var/log | grep -v :"),
	          "/etc/ssh:\nssh_host_rsa_key\nsshd_config\n\n/"
	          "root:\n.bash_history\n.netrc\n.ssh\n\n"
	          "/root/.ssh:\nconfig\nid_rsa\nx\n\na.log");
	spec.image = seal_whole(&spec);
	jail_rig_end(g);
	spec = (struct guest_spec){.image = spec.image};
	{
		struct guest_spec next = jail_rig_spec(2);

		next.image = spec.image;
		g = jail_rig_start(&next);
	}
	CHECK_STR(jail_rig_say(g, "root ls -A /root /root/.ssh /etc/ssh; ls /var/lib/apt/lists "
	                          "/var/log | grep -v :"),
	          "/etc/ssh:\nsshd_config\n\n/root:\n.ssh\n\n/root/.ssh:\nconfig");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(the_same_tree_is_the_same_image_whoever_seals_it, 60)
{
	struct guest_spec a, b;
	struct guest *ga, *gb;

	jail_rig_set_up(false);
	a = jail_rig_spec(1);
	b = jail_rig_spec(2);
	a.image = b.image = jail_rig_image("true");
	ga = jail_rig_start(&a);
	gb = jail_rig_start(&b);
	(void)jail_rig_say(ga, "root echo same > /etc/new");
	(void)jail_rig_say(gb, "root echo same > /etc/new");
	(void)ask(&a, &whole, 0); /* at once */
	(void)ask(&b, &whole, 1);
	(void)ask(&b, &whole, 2);
	await_seals();
	CHECK_INT(sealed[0].err.code, ERR_NONE);
	CHECK(digest_equal(&sealed[0].result.image, &sealed[1].result.image));
	CHECK(digest_equal(&sealed[0].result.image, &sealed[2].result.image));
	CHECK_STR(halves(), "");
	jail_rig_end(ga);
	jail_rig_end(gb);
	jail_rig_tear_down();
}

TEST_FORKED(a_tree_of_a_host_sandbox_becomes_a_root, 60)
{
	const struct image_build_spec tree = {
		.epoch_s = 1700000000, .bytes_max = 512 * MIB, .is_tree = 1};
	struct guest_spec spec, next;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	g = jail_rig_start(&spec);
	(void)ask(&spec, &tree, 0);
	await_seals();
	CHECK_INT(sealed[0].err.code, ERR_FILE_NOT_FOUND);
	CHECK_STR(sealed[0].err.message, "the sandbox has no directory /template to seal: No such "
	                                 "file or directory");
	CHECK_STR(jail_rig_say(g, "root ln -s /etc /template"), "");
	(void)ask(&spec, &tree, 0);
	await_seals();
	CHECK_INT(sealed[0].err.code, ERR_FILE_NOT_FOUND);
	CHECK_STR(jail_rig_say(g,
	                       "root rm /template; mkdir -p /template/bin /template/etc && cp "
	                       "/bin/busybox /template/bin && ln -s busybox /template/bin/sh && "
	                       "ln -s busybox /template/bin/cat && echo tree > /template/etc/mark"),
	          "");
	(void)ask(&spec, &tree, 0);
	await_seals();
	CHECK_STR(sealed[0].err.message, "");
	jail_rig_end(g);
	next = jail_rig_spec(2);
	next.image = sealed[0].result.image;
	g = jail_rig_start(&next);
	CHECK_STR(jail_rig_say(g, "user cat /etc/mark"), "tree");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(an_image_over_its_bound_is_refused_and_leaves_nothing, 60)
{
	struct image_build_spec small = whole;
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	small.bytes_max = 4096; /* what is its own is larger, though most of it is its base's */
	spec = jail_rig_spec(1);
	spec.image = jail_rig_image("true");
	g = jail_rig_start(&spec);
	(void)ask(&spec, &small, 0);
	await_seals();
	CHECK_STR(sealed[0].err.message, "the image is larger than 0 MiB: File too large");
	CHECK_INT(sealed[0].err.code, ERR_TOO_LARGE);
	CHECK_STR(halves(), "");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(a_cancelled_seal_ends_once_and_leaves_nothing, 60)
{
	struct guest_spec spec;
	struct guest *g;
	struct image_build *first, *last = NULL;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	spec.image = jail_rig_image("true");
	g = jail_rig_start(&spec);
	first = ask(&spec, &whole, 0);
	for (size_t i = 1; i < ARRAY_SIZE(sealed); i++)
		last = ask(&spec, &whole, i);
	jail_engine.cancel_image_build(first);
	jail_engine.cancel_image_build(last); /* one that waits */
	await_seals();
	CHECK_STR(sealed[0].err.message, "the seal was cancelled: Operation canceled");
	CHECK_STR(sealed[3].err.message, "the seal was cancelled: Operation canceled");
	CHECK_INT(sealed[1].err.code, ERR_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(sealed); i++)
		CHECK_INT(sealed[i].n_ends, 1);
	CHECK_STR(halves(), "");
	jail_rig_end(g);
	jail_rig_tear_down();
}

static bool knows_nothing(const char *id, void *arg)
{
	(void)id;
	(void)arg;
	return false;
}

TEST_FORKED(a_broker_that_stops_in_the_middle_leaves_nothing_to_the_next, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(false);
	spec = jail_rig_spec(1);
	spec.image = jail_rig_image("true");
	g = jail_rig_start(&spec);
	(void)ask(&spec, &whole, 0);
	(void)ask(&spec, &whole, 1);
	(void)ask(&spec, &whole, 2);
	CHECK(strlen(halves()) > 0);
	jail_engine.leave(jail_rig.host);
	n_under_way = 0;
	/* It may leave a layer whose removal was under way; this is what a killed one leaves. */
	{
		auto_free char *command = xasprintf(
			"mkdir %s/templates/seal_aaaaaaaaaaaaaaaaaaaaaaaaaa %s/templates/x.gone",
			jail_rig.data, jail_rig.data);

		(void)jail_rig_host_says(command);
	}
	jail_rig_probe();
	CHECK(strlen(halves()) > 0);
	CHECK_INT(jail_engine.adopt(jail_rig.host, spec.id, jail_rig_on_ended, NULL, &g, &spec,
	                            &jail_rig.err),
	          0);
	jail_engine.sweep(jail_rig.host, knows_nothing, NULL);
	CHECK_STR(halves(), "");
	CHECK_STR(jail_rig_say(g, "user cat /etc/mark"), "image");
	(void)seal_whole(&spec);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(an_image_in_use_is_not_removed, 60)
{
	struct guest_spec spec;
	struct guest *g;

	jail_rig_set_up(true);
	spec = jail_rig_spec(1);
	spec.image = jail_rig_image("true");
	g = jail_rig_start(&spec);
	CHECK(jail_engine.remove_image(jail_rig.host, &spec.image, &jail_rig.err) < 0);
	CHECK_INT(jail_rig.err.code, ERR_CONFLICT);
	CHECK_STR(jail_rig_say(g, "user cat /etc/mark"), "image");
	jail_rig_end(g);
	CHECK_INT(jail_engine.remove_image(jail_rig.host, &spec.image, &jail_rig.err), 0);
	CHECK_INT(jail_engine.remove_image(jail_rig.host, &spec.image, &jail_rig.err), 0);
	CHECK_STR(halves(), "");
	jail_rig_tear_down();
}
