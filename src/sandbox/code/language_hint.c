// SPDX-License-Identifier: Apache-2.0
/* Where a language is to be had that a sandbox lacks: what the manifests of templates tell. */
#include "sandbox/code/language.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/storage/template.h"

#include <string.h>

struct search {
	const char *language; /* as manifests name it */
	const char *wanted;   /* the template that is the first choice */
	const char *found;
};

static void look_at(const struct template *t, void *arg)
{
	struct search *s = arg;
	const json_t *manifest = template_manifest(t);

	if (template_is_set(t) ||
	    !json_object_get(json_object_get(manifest, "languages"), s->language))
		return;
	if (!s->found || strcmp(template_name(t), s->wanted) == 0)
		s->found = template_name(t);
}

int language_hint(const struct fleet *fleet, const char *project_id, const char *language,
                  struct err *err)
{
	const struct language *l = language_find(language);
	struct search s = {.language = l->runtime, .wanted = l->template};

	template_each(fleet, project_id, look_at, &s);
	if (s.found)
		return err_hint(
			err, "the template '%s' has it: create with template '%s' (--template %s)",
			s.found, s.found, s.found);
	return err_hint(err,
	                "no template here has it; 'cloche template build %s' makes one that does, "
	                "for --template %s",
	                s.wanted, s.wanted);
}
