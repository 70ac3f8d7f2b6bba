// SPDX-License-Identifier: Apache-2.0
/*
 * What a client of E2B's needs to reach the daemon by name: lines for eval, and the authority in
 * files beside what `cloche login` keeps.
 *
 * Node adds NODE_EXTRA_CA_CERTS to what it trusts. Programs that read SSL_CERT_FILE or
 * REQUESTS_CA_BUNDLE trust that file and nothing else, so it gets the system's certificates too:
 * other sites stay in reach.
 *
 * The lines are run by a shell, and the words in them come from a daemon that nobody trusts yet.
 * So only the usual letters of names and addresses are let through.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"
#include "cli/frame/command.h"
#include "cli/remote/saved_login.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LOWER      "abcdefghijklmnopqrstuvwxyz0123456789-_."
#define CA_BYTES   ((size_t)16 * 1024)
#define HOST_BYTES ((size_t)4 * 1024 * 1024) /* of the system's certificates */

struct trust_opts {
	bool only_pem, no_key;
	const char *dir;
};

static const char *const system_files[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
	"/etc/ssl/ca-bundle.pem",             /* SUSE */
	"/etc/ssl/cert.pem",                  /* Alpine, macOS */
};

static int check_words(const json_t *reply, struct err *err)
{
	const char *domain = command_text(reply, "domain"),
		   *address = command_text(reply, "address");
	const char *certificates = command_text(reply, "certificates");
	const json_t *prints = json_object_get(reply, "fingerprints");
	bool is_good = *domain && *domain != '.' && !domain[strspn(domain, LOWER)] &&
	               !address[strspn(address, LOWER ":")] && strlen(certificates) < CA_BYTES;

	for (size_t i = 0; i < json_array_size(prints); i++) {
		const char *text = json_string_value(json_array_get(prints, i));

		is_good = is_good && text && !text[strspn(text, "0123456789ABCDEF:")];
	}
	if (!is_good)
		return err_set(err, ERR_INTERNAL, 0,
		               "the daemon has returned a name that cannot be right");
	if (*address)
		return 0;
	(void)err_set(err, ERR_UNSUPPORTED, 0, "the daemon listens on a unix socket only");
	return err_hint(err, "start it with --listen ADDRESS:PORT");
}

/* As one word of a shell, whatever is in it. */
static void print_export(const char *name, const char *value)
{
	printf("export %s='", name);
	for (; *value; value++) {
		if (*value == '\'')
			printf("'\\''");
		else
			(void)putchar(*value);
	}
	printf("'\n");
}

static int add_system(struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(system_files); i++) {
		auto_fd int fd = open(system_files[i], O_RDONLY | O_CLOEXEC);
		ssize_t n = 1;

		while (fd >= 0 && n > 0) {
			char *room;

			if (buf_reserve(out, 65536, &room) < 0)
				return -EFBIG;
			n = read(fd, room, 65536);
			if (n > 0)
				buf_commit(out, (size_t)n);
		}
		if (out->len > 0)
			return buf_append(out, "\n", 1);
	}
	return 0;
}

/* DIR/DOMAIN.pem and DIR/DOMAIN-bundle.pem. */
static int write_files(const char *dir, const json_t *reply, char **ret_pem, char **ret_bundle,
                       struct err *err)
{
	auto_call(buf_done) struct buf bundle = BUF_INIT(HOST_BYTES);
	const char *pem = command_text(reply, "certificates");
	const char *domain = command_text(reply, "domain");
	int r = saved_login_make_directory(dir);

	*ret_pem = xasprintf("%s/%s.pem", dir, domain);
	*ret_bundle = xasprintf("%s/%s-bundle.pem", dir, domain);
	if (r == 0)
		r = add_system(&bundle);
	if (r == 0)
		r = buf_append(&bundle, pem, strlen(pem));
	if (r == 0)
		r = fd_replace_file(AT_FDCWD, *ret_pem, pem, strlen(pem), 0644, false);
	if (r == 0)
		r = fd_replace_file(AT_FDCWD, *ret_bundle, bundle.data, bundle.len, 0644, false);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write '%s'", *ret_pem) : 0;
}

static void print_key(const char *key, bool is_unwanted)
{
	auto_free char *theirs = NULL;

	if (key && !is_unwanted && (strncmp(key, "clo_", 4) == 0 || strncmp(key, "e2b_", 4) == 0)) {
		theirs = xasprintf("e2b_%s", key + 4);
		print_export("E2B_API_KEY", theirs);
	} else {
		printf("# E2B_API_KEY is still to be set: `cloche key create NAME` makes a key, "
		       "whose first letters clo_ are e2b_ here\n");
	}
}

static void print_authority(const json_t *reply)
{
	const json_t *prints = json_object_get(reply, "fingerprints");
	time_t until_s = (time_t)(command_number(reply, "expires_us") / SECOND_US);
	struct tm tm;
	char day[16] = "";

	if (gmtime_r(&until_s, &tm))
		(void)strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	printf("# The authority is good until %s, for these names alone. The same fingerprints "
	       "are told on the daemon's host:\n",
	       day);
	for (size_t i = 0; i < json_array_size(prints); i++)
		printf("#   SHA-256 %s\n", json_string_value(json_array_get(prints, i)));
}

static void print_names(const char *domain)
{
	const size_t len = strlen(domain), local = strlen("localhost");

	printf("# Every name below %s has to lead to the daemon's address.\n", domain);
	if (len >= local && strcmp(domain + len - local, "localhost") == 0)
		printf("# Browsers, curl and E2B's Python client take names below localhost for "
		       "this machine by themselves.\n"
		       "# For Node and others: apt-get install libnss-myhostname\n");
	else
		printf("# In DNS that is a record *.%s. /etc/hosts knows no wildcards; on one "
		       "machine dnsmasq does it:\n"
		       "#   address=/%s/127.0.0.1\n",
		       domain, domain);
}

static int trust(struct command *c, struct err *err)
{
	const struct trust_opts *o = c->arg;
	auto_free char *path = remote_path("authority"), *pem = NULL, *bundle = NULL;
	auto_free char *usual = saved_login_directory();
	const char *dir = o->dir ? o->dir : usual;
	auto_json json_t *reply = NULL;
	bool is_own;
	int r = command_ask(c, "GET", path, NULL, &reply, err);

	if (r != 0)
		return MIN(r, 0);
	r = check_words(reply, err);
	if (r < 0)
		return r;
	is_own = *command_text(reply, "certificates") != '\0';
	if (o->only_pem && !is_own) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "the daemon has no authority of its own");
		return err_hint(err,
		                "its operator has given it a certificate (tls_cert): ask there "
		                "for what to trust");
	}
	if (o->only_pem) {
		printf("%s", command_text(reply, "certificates"));
		return 0;
	}
	if (is_own && !dir)
		return err_set(err, ERR_UNAVAILABLE, 0,
		               "there is no home directory for the files: give --dir DIR");
	if (is_own)
		r = write_files(dir, reply, &pem, &bundle, err);
	if (r < 0)
		return r;
	print_export("E2B_DOMAIN", command_text(reply, "address"));
	print_key(remote_key(c->remote), o->no_key);
	if (is_own) {
		print_export("NODE_EXTRA_CA_CERTS", pem);
		print_export("SSL_CERT_FILE", bundle);
		print_export("REQUESTS_CA_BUNDLE", bundle);
		print_authority(reply);
	}
	print_names(command_text(reply, "domain"));
	return 0;
}

int cmd_trust(int argc, char **argv)
{
	struct trust_opts o = {0};
	const struct opt opts[] = {
		{0, "pem", OPT_FLAG, &o.only_pem, NULL,
	         "print the authority's certificate (PEM) and nothing else"},
		{0, "dir", OPT_TEXT, &o.dir, "DIR",
	         "where the files go (default ~/.config/cloche)"},
		{0, "no-key", OPT_FLAG, &o.no_key, NULL, "print no key"},
	};
	const struct manual manual = {
		.name = "trust",
		.synopsis = "[OPTIONS]",
		.about =
			"Prints what E2B's clients need to reach the daemon and the ports of its "
			"sandboxes by name, over TLS: lines\n"
			"for a shell, with the domain, the key and the certificate of the daemon's "
			"own authority, which it writes\n"
			"to two files. The daemon needs --preview-domain NAME. The authority is "
			"good for names below NAME alone.",
		.examples = "  eval \"$(cloche trust)\"\n"
			    "  cloche trust --pem > authority.pem",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return command_main(&manual, argc, argv, trust, &o);
}
