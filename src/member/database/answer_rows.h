// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Values of an answer of one row. The database is not trusted: its text is read as a stranger's. */
#include "base/json/json.h"

#include <libpq-fe.h>
#include <stdint.h>

int64_t rows_number(const PGresult *rows, const char *column);   /* -1 is what no column has */
const char *rows_text(const PGresult *rows, const char *column); /* "" for NULL */
json_t *rows_json(const PGresult *rows, const char *column);     /* NULL: there is none */
