# SPDX-License-Identifier: Apache-2.0
# From a value to the MIME bundle that shows it: what print() writes, and a table of HTML for a data frame.

TEXT_MAX <- 1048576L
BUNDLE_MAX <- 8388608L
ROWS_MAX <- 60L # of a table
COLUMNS_MAX <- 40L
MIME <- "^[a-z]+/[A-Za-z0-9.+-]+$"
BINARY <- c("image/png", "image/jpeg", "application/pdf")

# What print() writes; "" where it writes nothing, as a plot's does.
printed <- function(value) paste(utils::capture.output(print(value)), collapse = "\n")

bundle_of <- function(value, text = printed(value)) {
	data <- list("text/plain" = text)
	if (is.data.frame(value))
		data[["text/html"]] <- tryCatch(html_table(value), error = function(e) NULL)
	bundle_json(data)
}

# What display() was given: a bundle already, or a value.
bundle_displayed <- function(value) {
	names <- names(value)
	if (!is.list(value) || is.null(names) || !length(names) || !all(grepl(MIME, names)))
		return(bundle_of(value))
	if (is.null(value[["text/plain"]]))
		value[["text/plain"]] <- sprintf("<%s>", names[1L])
	bundle_json(value)
}

as_sent <- function(mime, form) {
	if (is.raw(form))
		form <- if (mime %in% BINARY) base64(form) else rawToChar(form[form != as.raw(0)])
	paste(clean(form), collapse = "\n")
}

# Long text is cut, and what is too big as a whole is left with its text.
bundle_json <- function(data) {
	forms <- vapply(names(data), function(mime) as_sent(mime, data[[mime]]), "")
	text <- forms[["text/plain"]]
	is_cut <- nchar(text, "bytes") > TEXT_MAX
	if (is_cut)
		forms[["text/plain"]] <- sprintf("%s... [cut: %d characters in all]", substr(text, 1L, TEXT_MAX %/% 4L), nchar(text))
	if (sum(nchar(forms, "bytes")) > BUNDLE_MAX) {
		forms <- forms["text/plain"]
		is_cut <- TRUE
	}
	values <- json_text(forms)
	is_json <- grepl("json$", names(forms))
	values[is_json] <- forms[is_json]
	sprintf("{\"data\":%s,\"metadata\":{}%s}", json_object(names(forms), values), if (is_cut) ",\"truncated\":true" else "")
}

escape_html <- function(text) {
	text <- gsub("&", "&amp;", clean(text), fixed = TRUE)
	text <- gsub("<", "&lt;", text, fixed = TRUE)
	gsub(">", "&gt;", text, fixed = TRUE)
}

cells <- function(tag, text) paste0("<", tag, ">", escape_html(text), "</", tag, ">", collapse = "")

html_table <- function(frame) {
	rows <- min(nrow(frame), ROWS_MAX)
	columns <- min(ncol(frame), COLUMNS_MAX)
	part <- as.data.frame(frame)[seq_len(rows), seq_len(columns), drop = FALSE]
	text <- vapply(part, function(column) trimws(format(column)), character(rows))
	text <- matrix(text, nrow = rows)
	head <- paste0("<tr>", cells("th", c("", names(part))), "</tr>")
	body <- vapply(seq_len(rows), function(i) {
		paste0("<tr>", cells("th", rownames(part)[i]), cells("td", text[i, ]), "</tr>")
	}, "")
	size <- sprintf("<p>%d rows, %d columns</p>", nrow(frame), ncol(frame))
	paste(c("<table>", "<thead>", head, "</thead>", "<tbody>", body, "</tbody>", "</table>", size), collapse = "\n")
}
