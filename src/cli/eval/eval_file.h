// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A file of evals as one tree, whether it is written in TOML or in JSON: "case.sum" of TOML is the
 * object `sum` inside the object `case`. */
#include "base/json/json.h"

/* By the name's end: ".json" is JSON, all else TOML. *ret is for json_decref(). */
must_check int eval_file_read(const char *path, json_t **ret, struct err *err);
must_check int eval_file_parse(const char *name, const char *text, size_t len, json_t **ret,
                               struct err *err);
