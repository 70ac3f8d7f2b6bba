// SPDX-License-Identifier: Apache-2.0
/* Tells where to get a language that a sandbox lacks, by the manifests of templates. */
#include "sandbox/code/language.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/storage/template.h"

#include <string.h>

struct search {
	const char *language; /* as manifests name it */
	const char *wanted;   /* the template that is the first choice */
	const struct template *found;
};

static bool has(const struct template *t, const char *language)
{
	return json_object_get(json_object_get(template_manifest(t), "languages"), language);
}

static void look_at(const struct template *t, void *arg)
{
	struct search *s = arg;

	if (template_is_set(t) || !has(t, s->language))
		return;
	if (!s->found || strcmp(template_name(t), s->wanted) == 0)
		s->found = t;
}

static const struct template *search(const struct fleet *fleet, const char *project_id,
                                     const struct language *l)
{
	struct search s = {.language = l->runtime, .wanted = l->template};

	template_each(fleet, project_id, look_at, &s);
	return s.found;
}

int language_hint(const struct fleet *fleet, const char *project_id, const char *language,
                  struct err *err)
{
	const struct language *l = language_find(language);
	const struct template *t = search(fleet, project_id, l);

	if (t)
		return err_hint(
			err, "the template '%s' has it: create with template '%s' (--template %s)",
			template_name(t), template_name(t), template_name(t));
	return err_hint(err,
	                "'cloche template build --shared %s' makes a template that has it; "
	                "'cloche template builds' tells whether one is on its way",
	                l->is_in_universal ? "universal" : l->template);
}

/* If a template's manifest does not list its languages, it may have any. */
static bool may_have(const struct template *t, const char *language)
{
	return !t || !json_object_get(template_manifest(t), "languages") || has(t, language);
}

int language_template(const struct fleet *fleet, const char *project_id, const char *language,
                      struct template **ret, struct err *err)
{
	const struct language *l;
	const struct template *found;
	int r = language_check(language, "language", &l, err);

	if (r == 0)
		r = template_resolve(fleet, project_id, NULL, ret, err);
	if (r < 0 || may_have(*ret, l->runtime))
		return r;
	found = search(fleet, project_id, l);
	if (found)
		return template_resolve(fleet, project_id, template_id(found), ret, err);
	(void)err_set(err, ERR_UNSUPPORTED, 0, "language: no template here has %s", l->name);
	return language_hint(fleet, project_id, language, err);
}
