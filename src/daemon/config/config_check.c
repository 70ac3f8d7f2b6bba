// SPDX-License-Identifier: Apache-2.0
/* Checks the settings as a whole: dependencies between them, and absolute paths. */
#include "broker/broker.h"
#include "build/image/registries.h"
#include "build/recipe/recipe.h"
#include "daemon/config/config.h"
#include "identity/identity.h"
#include "net/match/hostname.h"
#include "net/match/url.h"
#include "net/policy/identity_reference.h"
#include "object/object_location.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define ISSUER_MAX       255
#define AUDIT_REGION_MAX 64
#define WARM_MODULES_MAX 1000 /* less than ZYGOTE_WARM_MAX */

static int check_ceiling(const char *name, uint64_t value, uint64_t max, struct err *err)
{
	return value > max ? err_field(err, name, "the default is above the ceiling") : 0;
}

static int check_ceilings(const struct config *c, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < GUEST_LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];

		r = check_ceiling(l->setting, limit_get(l, &c->default_limits),
		                  limit_get(l, &c->max_limits), err);
	}
	return r < 0 ? r : check_ceiling("timeout", c->default_timeout_ms, c->max_timeout_ms, err);
}

static int make_absolute(char **path, struct err *err)
{
	auto_free char *cwd = NULL;
	char *whole;

	if (!*path || (*path)[0] == '/' || strcmp(*path, "none") == 0)
		return 0;
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return err_set(err, ERR_INTERNAL, errno, "cannot tell the working directory");
	whole = xasprintf("%s/%s", cwd, *path);
	free(*path);
	*path = whole;
	return 0;
}

/* They go into a broker's message of fixed size, and from there into an environment. */
static int check_warm_modules(const char *names, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.,";

	if (names[strspn(names, letters)] != '\0')
		return err_field(err, "warm_modules",
		                 "must be names parted by commas, as "
		                 "\"numpy,pandas\"");
	if (strlen(names) > WARM_MODULES_MAX)
		return err_field(err, "warm_modules", "may have up to %d letters",
		                 WARM_MODULES_MAX);
	return 0;
}

static int check_engines(char *const *names, struct err *err)
{
	for (; names && *names; names++)
		if (!engine_find_name(*names))
			return err_field(err, "engines", "there is no '%s'", *names);
	return 0;
}

static int check_recipes(char *const *names, struct err *err)
{
	for (; names && *names; names++)
		if (!recipe_shipped(*names))
			return err_field(err, "templates.build",
			                 "no recipe '%.64s' comes with cloche", *names);
	return 0;
}

static int check_audiences(char *const *names, struct err *err)
{
	for (; names && *names; names++)
		if (!audience_is_valid(*names))
			return err_field(err, "identity.audiences",
			                 "'%.100s' must be 1 to 255 letters that a URL may have",
			                 *names);
	return 0;
}

static int check_signals(char *const *names, struct err *err)
{
	static const char *const known[] = {"metrics", "traces", "logs"};

	for (; names && *names; names++) {
		bool is_known = false;

		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			is_known |= strcmp(*names, known[i]) == 0;
		if (!is_known)
			return err_field(err, "telemetry.signals",
			                 "'%.64s' is not one of metrics, traces and logs", *names);
	}
	return 0;
}

/* A token or a secret that goes in the clear may be read by anybody between. */
static int check_issuer(const char *issuer, struct err *err)
{
	const char *why = NULL;
	struct url url;

	if (url_parse(issuer, strlen(issuer), &url, &why) < 0)
		return err_field(err, "login.issuer", "'%s': %s", issuer, why);
	if (url.query || strlen(issuer) > ISSUER_MAX)
		return err_field(err, "login.issuer", "'%.80s' has a query, or is too long",
		                 issuer);
	if (url.scheme == URL_HTTPS)
		return 0;
	if (url.scheme == URL_HTTP && host_is_loopback(&url.host))
		return 0;
	return err_field(err, "login.issuer", "'%s' must be https (http on this host alone)",
	                 issuer);
}

static bool has(char *const *list, const char *word)
{
	for (; list && *list; list++)
		if (!word || strcmp(*list, word) == 0)
			return true;
	return false;
}

static int check_login(const struct config *c, struct err *err)
{
	int r = 0;

	if (!c->login_issuer)
		return c->login_client_id || has(c->login_roles, NULL)
		               ? err_field(err, "login.issuer",
		                           "is needed with the others of [login]")
		               : 0;
	r = check_issuer(c->login_issuer, err);
	if (r < 0)
		return r;
	if (!c->login_client_id)
		return err_field(err, "login.client_id", "is needed with login.issuer");
	if (has(c->login_scopes, NULL) && !has(c->login_scopes, "openid"))
		return err_field(err, "login.scopes", "openid must be one of them");
	if (!has(c->login_roles, NULL))
		return err_field(err, "login.roles",
		                 "nobody has a role: give one, such as "
		                 "\"cloche-admins=admin:default\"");
	return 0;
}

uint32_t config_engines_forbidden(const struct config *c)
{
	uint32_t forbidden = c->engines ? UINT32_MAX : 0;

	for (char *const *name = c->engines; name && *name; name++)
		forbidden &= ~BIT(engine_find_name(*name)->number);
	return forbidden;
}

static int check_audit(const struct config *c, struct err *err)
{
	if (c->audit_s3_url && !c->audit_s3_credentials)
		return err_field(err, "audit.s3_credentials", "is needed by audit.s3_url");
	if (strlen(c->audit_s3_region) > AUDIT_REGION_MAX ||
	    c->audit_s3_region[strspn(c->audit_s3_region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
		return err_field(err, "audit.s3_region",
		                 "'%.80s' is not a region such as us-east-1", c->audit_s3_region);
	return 0;
}

static int check_objects(const struct config *c, struct err *err)
{
	struct object_location l;
	int r;

	if (!c->cluster_objects)
		return 0;
	if (!c->cluster_postgres)
		return err_field(err, "cluster.objects",
		                 "is of a cluster: cluster.postgres is missing");
	r = object_location_parse(c->cluster_objects, c->cluster_objects_endpoint,
	                          c->cluster_objects_region, &l, err);
	if (r == 0 && l.backend == OBJECT_S3 && !c->cluster_objects_credentials)
		r = err_field(err, "cluster.objects_credentials", "is needed by cluster.objects");
	if (r == 0)
		object_location_done(&l);
	return r;
}

/* It becomes a part of Host fields, links, certificates and the name of a file. */
static int check_preview(const struct config *c, struct err *err)
{
	struct hostname name;
	const char *why;

	if (!c->preview_domain ||
	    hostname_parse(c->preview_domain, strlen(c->preview_domain), &name, &why) == 0)
		return 0;
	return err_field(err, "preview.domain", "'%.80s' is not a host name: %s", c->preview_domain,
	                 why);
}

/* Where a second daemon begins, the first must end. */
static int check_uids(const struct config *c, struct err *err)
{
	const uint64_t left = BROKER_SLOTS - (c->uid_base - BROKER_UID_BASE) / BROKER_UIDS;
	const uint64_t n = c->uid_ranges ? c->uid_ranges : left;

	if (c->uid_base % BROKER_UIDS != 0)
		return err_field(err, "uid_base", "%" PRIu64 " is not a multiple of %d",
		                 c->uid_base, (int)BROKER_UIDS);
	if (n > left)
		return err_field(err, "uid_ranges", "there are %" PRIu64 " behind uid_base", left);
	if (n < c->sandboxes_max)
		return err_field(err, "uid_ranges",
		                 "%" PRIu64 " are not enough for sandboxes_max, which is %u: each "
		                 "sandbox has one, and so has each that is made ahead",
		                 n, c->sandboxes_max);
	return 0;
}

int config_check(struct config *c, struct err *err)
{
	char **const paths[] = {&c->file,
	                        &c->data_dir,
	                        &c->run_dir,
	                        &c->socket,
	                        &c->tls_cert,
	                        &c->tls_key,
	                        &c->agent,
	                        &c->network_ca_file,
	                        &c->secrets_key_file,
	                        &c->telemetry_headers_file,
	                        &c->login_secret_file,
	                        &c->audit_s3_credentials,
	                        &c->cluster_objects_credentials,
	                        &c->cluster_objects_ca};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		r = make_absolute(paths[i], err);
		if (r < 0)
			return r;
	}
	if (!c->socket)
		c->socket = xasprintf("%s/cloche.sock", c->run_dir);
	if (!c->tls_cert != !c->tls_key)
		return err_field(err, c->tls_cert ? "tls_key" : "tls_cert",
		                 "certificate and key go together");
	if (strlen(c->currency) > CURRENCY_MAX)
		return err_field(err, "currency", "has more than %d letters", CURRENCY_MAX);
	r = check_uids(c, err);
	if (r == 0)
		r = check_engines(c->engines, err);
	if (r == 0 && c->default_engine && !engine_find_name(c->default_engine))
		r = err_field(err, "default_engine", "there is no '%s'", c->default_engine);
	if (r == 0 && c->default_engine &&
	    (config_engines_forbidden(c) & BIT(engine_find_name(c->default_engine)->number)))
		r = err_field(err, "default_engine", "the setting `engines` forbids it");
	if (r == 0)
		r = check_recipes(c->templates_build, err);
	if (r == 0)
		r = registries_check(
			&(struct registries_config){.place = c->registries_default,
		                                    .mirrors = c->registries_mirrors,
		                                    .credentials = c->registries_credentials},
			err);
	if (r == 0)
		r = check_signals(c->telemetry_signals, err);
	if (r == 0)
		r = check_login(c, err);
	if (r == 0)
		r = check_audit(c, err);
	if (r == 0)
		r = check_objects(c, err);
	if (r == 0)
		r = check_preview(c, err);
	if (r == 0)
		r = check_warm_modules(c->warm_modules, err);
	if (r == 0 && c->identity_issuer)
		r = identity_check_issuer(c->identity_issuer, "identity.issuer", err);
	if (r == 0)
		r = check_audiences(c->identity_audiences, err);
	return r < 0 ? r : check_ceilings(c, err);
}
