// SPDX-License-Identifier: Apache-2.0
#include "cli/compose/compose_take.h"

#include <string.h>

int take_text(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result == 0 && (!*text || compose_put_text(to, r->field, text) < 0))
		return compose_wrong(r, v, err, "should not be empty");
	return result;
}

int take_nothing(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	(void)r, (void)v, (void)to, (void)err;
	return 0;
}

static int take_only(struct compose_reader *r, const struct yaml_value *v, bool wanted,
                     struct err *err)
{
	bool value = wanted;
	int result = compose_flag(r, v, &value, err);

	return result == 0 && value != wanted ? compose_wrong(r, v, err, "is not taken") : result;
}

int take_false(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	(void)to;
	return take_only(r, v, false, err);
}

int take_true(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	(void)to;
	return take_only(r, v, true, err);
}

int take_one(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	uint64_t n;
	int result = compose_number(r, v, 100000, &n, err);

	(void)to;
	return result == 0 && n != 1 ? compose_wrong(r, v, err, "should be 1") : result;
}

int take_texts(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	json_t *list;
	int result = compose_texts(r, v, &list, err);

	return result == 0 ? json_object_set_new(to, r->field, list) : result;
}

int take_words(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	json_t *words;
	int result = v->is_null ? 0 : compose_words(r, v, &words, err);

	return result == 0 && !v->is_null ? json_object_set_new(to, r->field, words) : result;
}

int take_pairs(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	json_t *pairs = json_object();
	int result = json_object_set_new(to, r->field, pairs);

	return result == 0 ? compose_pairs(r, v, pairs, err) : result;
}

int take_time(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	auto_free char *name = xasprintf("%s_ms", r->field);
	uint64_t ms;
	int result = compose_ms(r, v, &ms, err);

	return result == 0 ? json_object_set_new(to, name, json_integer((json_int_t)ms)) : result;
}

int take_each(struct compose_reader *r, const struct yaml_value *v, json_t *to, const char *name,
              compose_take_fn take_item, struct err *err)
{
	json_t *list = json_array();
	int result = json_object_set_new(to, name, list);

	if (v->kind != YAML_LIST && !v->is_null)
		return compose_wrong(r, v, err, "should be a list");
	for (size_t i = 0; result == 0 && i < v->n; i++)
		result = take_item(r, v->items[i], list, err);
	return result;
}

bool compose_is_among(const char *word, const char *const *words)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words != NULL;
}

int compose_choice(struct compose_reader *r, const struct yaml_value *v, const char *const *words,
                   const char *should, char **ret, struct err *err)
{
	int result = compose_text(r, v, ret, err);

	if (result == 0 && !compose_is_among(*ret, words))
		return compose_wrong(r, v, err, "'%.60s'%s", *ret, should);
	return result;
}

int compose_check_keys(struct compose_reader *r, const struct yaml_value *map,
                       const char *const *known, struct err *err)
{
	for (size_t i = 0; i < map->n; i++)
		if (!compose_is_among(map->keys[i]->text, known))
			return compose_wrong(r, map->keys[i], err, "has no field '%.40s'",
			                     map->keys[i]->text);
	return 0;
}
