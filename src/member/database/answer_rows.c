// SPDX-License-Identifier: Apache-2.0
#include "member/database/answer_rows.h"

#include "base/parse.h"

#include <string.h>

#define JSON_MAX ((size_t)200000) /* values of a directory of some thousand nodes */

int64_t rows_number(const PGresult *rows, const char *column)
{
	int at = PQntuples(rows) == 1 ? PQfnumber(rows, column) : -1;
	uint64_t value;

	return at < 0 || PQgetisnull(rows, 0, at) ||
	                       parse_u64(PQgetvalue(rows, 0, at), INT64_MAX, &value) < 0
	               ? -1
	               : (int64_t)value;
}

const char *rows_text(const PGresult *rows, const char *column)
{
	int at = PQntuples(rows) == 1 ? PQfnumber(rows, column) : -1;

	return at < 0 || PQgetisnull(rows, 0, at) ? "" : PQgetvalue(rows, 0, at);
}

json_t *rows_json(const PGresult *rows, const char *column)
{
	const char *text = rows_text(rows, column);
	json_t *value = NULL;
	struct err err;

	return text[0] && json_parse_up_to(text, strlen(text), JSON_MAX, &value, &err) == 0 ? value
	                                                                                    : NULL;
}
