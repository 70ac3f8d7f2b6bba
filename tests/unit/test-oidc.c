// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens that others have signed, and what liars make of them. RS256 and ES256 are the examples of
 * RFC 7515 (A.2, A.3); the others were signed by the npm package jose.
 */
#include "base/parse.h"
#include "oidc/base64url.h"
#include "oidc/id_token.h"
#include "oidc/jws.h"
#include "oidc/provider_documents.h"
#include "test.h"

#include <string.h>

#define RS256_KEY                                                                                  \
	"{\"kty\": \"RSA\", \"n\": \"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPd"     \
	"dxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2j"     \
	"Z47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg6"     \
	"65xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2et"     \
	"hFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\", \"e\": \"AQAB\"}"
#define RS256                                                                                      \
	"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGx" \
	"lLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5R" \
	"Zmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrn" \
	"byTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHW" \
	"EsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0ig" \
	"cN_IoypGlUPQGe77Rw"
#define ES256_KEY                                                                                  \
	"{\"kty\": \"EC\", \"crv\": \"P-256\", \"x\": \"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uP"     \
	"HvRVEU\", \"y\": \"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}"
#define ES256                                                                                      \
	"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGx" \
	"lLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8I" \
	"SlSApmWQxfKTUJqPP3-Kg6NU1Q"
#define PS256_KEY                                                                                  \
	"{\"kty\": \"RSA\", \"n\": \"5fYj1-TL_kdxLn4-IhT-es0rqSu37uDDEjUh_WwGk2aLvU2Pz-u7aeiT"     \
	"xXhBjyMoA4fruQAc-wMo27qz1Bt50qzp1cHgt3woJQDhuKIgVGgFVb6lWel0M219xqme9X-65O5WalDJOPRv"     \
	"Wur7kDZctw5nd7How7jWm7SCdwBcAGaFADLeN6WFl8I7_8MFrFP8uLsFCNzD3z7rYjHOeTWsRzf7Vwd_ydNz"     \
	"FU45ae3mgZ8jZKG3n-vr3xF1dXTHEr1U-I9bvkj4HK6FgIh_Az0uhVrJKlGzzT35QB9yfhIsJHO4BHI3X2M8"     \
	"2FPRXuFI5p5NFwUT_tRzJuxMiZhDdDkVdw\", \"e\": \"AQAB\", \"kid\": \"k1\"}"
#define PS256                                                                                      \
	"eyJhbGciOiJQUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJhbm4ifQ.jOyDrbaE9IwKw89PJDUP60IoidKP9F3hU" \
	"-hBialWfefzmj1c1Qt51Alj3BO78ECDq2nUrDqTVkv1LLde4l-gkh-aKwp2IuaEwPe1ZnXPJuEZu8V3TvRpr3T8u" \
	"Y836SeIptxSjO2hPiaFKKkvuYUUsbDHY1mrFhTdW0nH_tBWBw1R9pGDuR89b_PnHppLo3yLI5xwvSXlgv4solt4A" \
	"WHsDxFaGIlc6am67YdfsuKMyfORdiDlZNTYkZDB2TR8QXpqFtmEWzAa4__m5FoOe9OMQL0oqSyzs2TW9Pgd_rn51" \
	"s6IyRaL-Uc7sdzCgQD4E5NGFtDI0jbNiv6zvL3a8EH6lA"
#define EDDSA_KEY                                                                                  \
	"{\"crv\": \"Ed25519\", \"x\": \"l6_C9Aj2TLWtiqaipjyaCZ04VthaCOicwtPQyrYbyuw\", \"kty"     \
	"\": \"OKP\", \"kid\": \"k1\"}"
#define EDDSA                                                                                      \
	"eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIn0.eyJzdWIiOiJhbm4ifQ.EWdjK9W2xGM81Ep4B0Hevm1M8VuVMNLWS" \
	"5sDNZuvOhjIKiY6nLRr1LxPx2AxLzs02K0dtjgfH_DzEmmuATthCQ"
#define ES384_KEY                                                                                  \
	"{\"kty\": \"EC\", \"x\": \"QVOdM6WNiYbt6iBVP2xNFPj6poK2BZiQDyXp8VsKQ2_dYkx3t9_WVz6gW"     \
	"3B3mSMH\", \"y\": \"8YuQuxtgCL7D7CEpqTlMeAWlVccgYy3XuzWAQPS6u0K0PfMpbW9apvkh1iDUedSB"     \
	"\", \"crv\": \"P-384\", \"kid\": \"k1\"}"
#define ES384                                                                                      \
	"eyJhbGciOiJFUzM4NCIsImtpZCI6ImsxIn0.eyJzdWIiOiJhbm4ifQ.-Zzts9z8wFl_CFo2NXqf6_YUdcq5dCh7F" \
	"WKmT1ZScbxIxl0W27y5V5OpxqotUiB5FEppqS-TdsViMVZDCzRIsSP_gnppvxQQhGZltOOuH513za29cDfw5trx_" \
	"9GuWWx4"

#define ES256_X "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
#define ES256_REST                                                                                 \
	"\"kty\": \"EC\", \"crv\": \"P-256\", \"x\": "                                             \
	"\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\", \"y\": "                                 \
	"\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}"
#define RS256_N                                                                                    \
	"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-"                    \
	"4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_"   \
	"7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-"                                       \
	"UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-"             \
	"DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"

/* What jws_parse() or jws_verify() gives. */
static int check(const char *token, const char *set)
{
	struct jwks *keys = NULL;
	struct jws jws;
	int r = jws_parse(token, strlen(token), &jws, NULL);

	if (r == 0) {
		CHECK_INT(jwks_parse(set, strlen(set), &keys, NULL), 0);
		r = jws_verify(&jws, token, keys, NULL);
		jws_done(&jws);
		jwks_free(keys);
	}
	return r;
}

TEST(tokens_that_others_have_signed_are_taken)
{
	CHECK_INT(check(RS256, "{\"keys\":[" RS256_KEY "]}"), 0);
	CHECK_INT(check(ES256, "{\"keys\":[" ES256_KEY "]}"), 0);
	CHECK_INT(check(PS256, "{\"keys\":[" RS256_KEY "," PS256_KEY "]}"), 0);
	CHECK_INT(check(EDDSA, "{\"keys\":[" EDDSA_KEY "]}"), 0);
	CHECK_INT(check(ES384, "{\"keys\":[" ES256_KEY "," ES384_KEY "]}"), 0);
}

TEST(every_single_letter_of_a_token_counts)
{
	char token[sizeof(EDDSA)];

	for (size_t i = 0; i < strlen(EDDSA); i++) {
		memcpy(token, EDDSA, sizeof(token));
		token[i] = token[i] == 'A' ? 'B' : 'A';
		CHECK(check(token, "{\"keys\":[" EDDSA_KEY "]}") < 0);
	}
}

/* {"alg":ALG,…} and {"sub":"ann"} with some signature. */
static int check_header(const char *header, const char *signature, const char *set)
{
	char token[1024], *p = token;

	p += base64url_encode(header, strlen(header), p);
	*p++ = '.';
	p += base64url_encode("{\"sub\":\"ann\"}", 13, p);
	*p++ = '.';
	(void)snprintf(p, sizeof(token) - (size_t)(p - token), "%s", signature);
	return check(token, set);
}

TEST(a_token_without_a_signature_or_with_a_shared_secret_is_refused)
{
	static const char set[] =
		"{\"keys\":[" RS256_KEY ",{\"kty\":\"oct\",\"k\":\"AAAA\",\"kid\":\"s\"}]}";
	static const char *const headers[] = {
		"{\"alg\":\"none\"}",
		"{\"alg\":\"None\"}",
		"{\"alg\":\"HS256\"}",
		"{\"alg\":\"HS256\",\"kid\":\"s\"}",
		"{\"alg\":\"rs256\"}",
		"{\"alg\":\"\"}",
		"{\"alg\":null}",
		"{\"alg\":[\"RS256\"]}",
		"{}",
		"[]",
		"\"RS256\"",
		"{\"alg\":\"RS256\",\"alg\":\"none\"}", /* a name twice */
		"{\"alg\":\"RS256\",\"crit\":[\"x\"],\"x\":1}",
		"{\"alg\":\"RS256\",\"kid\":7}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		CHECK_INT(check_header(headers[i], "AAAA", set), -EBADMSG);
		CHECK(check_header(headers[i], "", set) < 0);
	}
}

TEST(a_key_that_the_token_brings_along_is_not_used)
{
	char header[700];

	(void)snprintf(header, sizeof(header), "{\"alg\":\"RS256\",\"jwk\":%s}", RS256_KEY);
	CHECK_INT(check_header(header, "AAAA", "{\"keys\":[" ES256_KEY "]}"), -ENOKEY);
}

TEST(a_key_is_used_for_its_own_id_type_and_algorithm_only)
{
	/* Another id, none where the token has one, another type, another algorithm or use. */
	CHECK_INT(check(EDDSA, "{\"keys\":[" ES256_KEY "]}"), -ENOKEY);
	CHECK_INT(check(RS256, "{\"keys\":[" ES256_KEY "]}"), -ENOKEY);
	CHECK_INT(check(ES256, "{\"keys\":[" ES384_KEY "]}"), -ENOKEY);
	CHECK_INT(check(ES256, "{\"keys\":[{\"use\":\"enc\"," ES256_REST "]}"), -ENOKEY);
	CHECK_INT(check(ES256, "{\"keys\":[{\"alg\":\"ES384\"," ES256_REST "]}"), -ENOKEY);
	CHECK_INT(check(ES256, "{\"keys\":[{\"alg\":\"ES256\"," ES256_REST "]}"), 0);
}

TEST(a_token_that_two_keys_could_have_signed_is_refused)
{
	CHECK_INT(check(ES256, "{\"keys\":[" ES256_KEY "," ES256_KEY "]}"), -EBADMSG);
	CHECK_INT(check(EDDSA, "{\"keys\":[" EDDSA_KEY "," EDDSA_KEY "]}"), -EBADMSG);
}

TEST(keys_that_are_weak_or_broken_are_left_out)
{
	static const char *const sets[] = {
		"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"oQ\",\"e\":\"AQAB\"}]}",
		"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"" RS256_N "\",\"e\":\"AQ\"}]}",
		"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"" RS256_N "\"}]}",
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}]}",
		/* a point that is not on the curve */
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" ES256_X
		"\",\"y\":\"" ES256_X "\"}]}",
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"secp256k1\",\"x\":\"" ES256_X "\"}]}",
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}]}",
		"{\"keys\":[7,null,\"x\",[],{}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct jwks *keys = NULL;

		CHECK_INT(jwks_parse(sets[i], strlen(sets[i]), &keys, NULL), 0);
		CHECK_INT(jwks_count(keys), 0);
		jwks_free(keys);
	}
}

TEST(huge_and_broken_texts_are_refused)
{
	static const char *const broken[] = {"",      ".",    "..",       "a.b",
	                                     "a.b.c", "....", "e30.e30.", "e30..AAAA"};
	auto_free char *huge = xcalloc(1, JWKS_TEXT_MAX + 2);
	struct jwks *keys = NULL;
	struct jws jws;

	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		CHECK(jws_parse(broken[i], strlen(broken[i]), &jws, NULL) < 0);
		CHECK(jwks_parse(broken[i], strlen(broken[i]), &keys, NULL) < 0);
	}
	memset(huge, 'A', JWKS_TEXT_MAX + 1);
	CHECK(jws_parse(huge, JWKS_TEXT_MAX + 1, &jws, NULL) < 0);
	CHECK(jwks_parse(huge, JWKS_TEXT_MAX + 1, &keys, NULL) < 0);
}

TEST(base64url_has_one_text_for_each_value)
{
	unsigned char raw[8];

	CHECK_INT(base64url_decode("-_8", 3, raw), 2);
	CHECK_MEM(raw, 2, "\xfb\xff", 2);
	CHECK_INT(base64url_decode("", 0, raw), 0);
	CHECK_INT(base64url_decode("-_9", 3, raw), -EINVAL); /* a bit that stands for nothing */
	CHECK_INT(base64url_decode("-_8=", 4, raw), -EINVAL);
	CHECK_INT(base64url_decode("+/8", 3, raw), -EINVAL);
	CHECK_INT(base64url_decode("A", 1, raw), -EINVAL);
}

#define NOW 1700000000
static const struct id_token_rules rules = {
	.issuer = "https://id.example", .client_id = "cloche", .nonce = "n-1", .now_s = NOW};

static enum login_problem judge(const char *change, const char *value)
{
	static const char claims[] =
		"{\"iss\":\"https://id.example\",\"aud\":\"cloche\",\"sub\":\"ann\",\"nonce\":"
		"\"n-1\",\"iat\":1699999999,\"exp\":1700000300}";
	auto_json json_t *object = json_loads(claims, 0, NULL);
	struct id_token token;

	if (change && !value)
		(void)json_object_del(object, change);
	else if (change)
		(void)json_object_set_new(object, change, json_loads(value, JSON_DECODE_ANY, NULL));
	return id_token_check(object, "jwt", &rules, &token);
}

TEST(a_token_must_be_meant_for_us_and_now)
{
	static const struct {
		const char *claim, *value;
		enum login_problem problem;
	} rows[] = {
		{NULL, NULL, LOGIN_FINE},
		{"iss", "\"https://evil.example\"", LOGIN_ISSUER},
		{"iss", "\"https://id.example/\"", LOGIN_ISSUER},
		{"iss", NULL, LOGIN_ISSUER},
		{"aud", "\"other\"", LOGIN_AUDIENCE},
		{"aud", "[\"cloche\"]", LOGIN_FINE},
		{"aud", "[\"other\",\"cloche\"]", LOGIN_AUDIENCE}, /* which of them may use it? */
		{"aud", "{\"cloche\":1}", LOGIN_AUDIENCE},
		{"aud", NULL, LOGIN_AUDIENCE},
		{"azp", "\"other\"", LOGIN_AUDIENCE},
		{"azp", "\"cloche\"", LOGIN_FINE},
		{"exp", "1699999940", LOGIN_EXPIRED},
		{"exp", "1699999941", LOGIN_FINE}, /* within a minute */
		{"exp", NULL, LOGIN_BAD_ANSWER},
		{"exp", "\"1700000300\"", LOGIN_BAD_ANSWER},
		{"exp", "-1", LOGIN_BAD_ANSWER},
		{"exp", "1e300", LOGIN_BAD_ANSWER},
		{"iat", "1700000060", LOGIN_FINE},
		{"iat", "1700000061", LOGIN_CLOCK},
		{"iat", NULL, LOGIN_BAD_ANSWER},
		{"nbf", "1700000061", LOGIN_CLOCK},
		{"nonce", "\"n-2\"", LOGIN_NONCE},
		{"nonce", NULL, LOGIN_NONCE},
		{"sub", NULL, LOGIN_BAD_ANSWER},
		{"sub", "\"\"", LOGIN_BAD_ANSWER},
		{"sub", "\"a\\nb\"", LOGIN_BAD_ANSWER},
		{"sub", "7", LOGIN_BAD_ANSWER},
		{"events", "{}", LOGIN_BAD_ANSWER}, /* a logout token is no login */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(login_problem_word(judge(rows[i].claim, rows[i].value)),
		          login_problem_word(rows[i].problem));
}

TEST(an_access_token_is_no_id_token)
{
	auto_json json_t *claims =
		json_loads("{\"iss\":\"https://"
	                   "id.example\",\"aud\":\"cloche\",\"sub\":\"ann\",\"nonce\":\"n-1\","
	                   "\"iat\":1699999999,\"exp\":1700000300}",
	                   0, NULL);
	struct id_token token;

	CHECK_INT(id_token_check(claims, "at+jwt", &rules, &token), LOGIN_BAD_ANSWER);
	CHECK_INT(id_token_check(claims, "", &rules, &token), LOGIN_FINE);
}

static int read_metadata(const char *issuer, const char *text)
{
	struct provider_metadata m = {0};
	int r = provider_metadata_parse(text, strlen(text), issuer, &m, NULL);

	provider_metadata_done(&m);
	return r;
}

TEST(metadata_must_be_the_issuers_own_and_as_secure_as_the_issuer)
{
	static const char fine[] =
		"{\"issuer\":\"https://id.example\",\"authorization_endpoint\":\"https://"
		"id.example/a\","
		"\"token_endpoint\":\"https://id.example/t\",\"jwks_uri\":\"https://id.example/"
		"k\"}";
	static const char plain[] =
		"{\"issuer\":\"https://id.example\",\"authorization_endpoint\":\"https://"
		"id.example/a\","
		"\"token_endpoint\":\"http://id.example/t\",\"jwks_uri\":\"https://id.example/k\"}";

	CHECK_INT(read_metadata("https://id.example", fine), 0);
	CHECK(read_metadata("https://id.example/", fine) < 0);
	CHECK(read_metadata("https://other.example", fine) < 0);
	CHECK(read_metadata("https://id.example", plain) < 0);
	CHECK(read_metadata("https://id.example", "{\"issuer\":\"https://id.example\"}") < 0);
	CHECK(read_metadata("https://id.example", "<html>") < 0);
}
