# SPDX-License-Identifier: Apache-2.0
# The driver's end of fd 3: messages of PROTOCOL.md. The system calls are src/driver/socket.c's.

LINE_MAX <- 64L
PAYLOAD_MAX <- 16777216
PEER_IS_BROKEN <- 70L
REPLACEMENT <- "\ufffd"

wire <- new.env(parent = emptyenv())
end_process <- base::quit # the code's quit() is another one: cell.R

wire_open <- function(dir) {
	wire$library <- dyn.load(file.path(dir, "libsocket.so"))
	for (name in c("open", "wait", "read", "read_line", "write", "put_back"))
		assign(name, getNativeSymbolInfo(paste0("socket_", name), wire$library), wire)
	fds <- .C(wire$open, fd = 0L, out = 0L, err = 0L)
	wire$fd <- fds$fd
	wire$out <- fds$out
	wire$err <- fds$err
	wire$pid <- Sys.getpid()
	if (fds$fd < 0L)
		end_process("no", PEER_IS_BROKEN, FALSE)
}

# A child that the code forked must never speak, nor run the driver's loop.
is_child <- function() Sys.getpid() != wire$pid

end_child <- function() tools::pskill(Sys.getpid(), tools::SIGKILL)

wire_send <- function(verb, id, json) {
	if (is_child())
		return(invisible(FALSE))
	body <- charToRaw(enc2utf8(json))
	head <- charToRaw(sprintf("%s %s %d\n", verb, id, length(body)))
	sent <- .C(wire$write, wire$fd, c(head, body), len = length(head) + length(body))
	if (sent$len < 0L)
		end_process("no", 0L, FALSE) # the host is gone, or the code closed the socket
	invisible(TRUE)
}

# The next message: list(verb, id, payload).
wire_receive <- function() {
	if (is_child())
		end_child()
	.C(wire$wait, wire$fd)
	got <- .C(wire$read_line, wire$fd, line = raw(LINE_MAX), len = LINE_MAX)
	if (got$len == 0L)
		end_process("no", 0L, FALSE)
	if (got$len < 0L || any(got$line == as.raw(0)) && match(as.raw(0), got$line) <= got$len)
		end_process("no", PEER_IS_BROKEN, FALSE)
	line <- rawToChar(got$line[seq_len(got$len - 1L)])
	if (!grepl("^(run|env|renew|sync) [0-9]{1,18} [0-9]{1,8}$", line, useBytes = TRUE))
		end_process("no", PEER_IS_BROKEN, FALSE)
	words <- strsplit(line, " ", fixed = TRUE)[[1L]]
	length <- as.integer(words[3L])
	if (length > PAYLOAD_MAX)
		end_process("no", PEER_IS_BROKEN, FALSE)
	payload <- raw(length)
	if (length > 0L) {
		got <- .C(wire$read, wire$fd, data = payload, len = length)
		if (got$len != length)
			end_process("no", 0L, FALSE)
		payload <- got$data
	}
	list(verb = words[1L], id = words[2L], payload = payload)
}

wire_put_back <- function() .C(wire$put_back, wire$out, wire$err)

# Text that every reader takes.
clean <- function(text) {
	text <- enc2utf8(as.character(text))
	text[is.na(text)] <- "NA"
	wrong <- !validUTF8(text)
	if (any(wrong))
		text[wrong] <- iconv(text[wrong], "UTF-8", "UTF-8", sub = REPLACEMENT)
	text
}

# JSON strings of a character vector.
json_text <- function(text) {
	text <- clean(text)
	text <- gsub("\\", "\\\\", text, fixed = TRUE)
	text <- gsub("\"", "\\\"", text, fixed = TRUE)
	text <- gsub("\n", "\\n", text, fixed = TRUE)
	text <- gsub("\t", "\\t", text, fixed = TRUE)
	text <- gsub("\r", "\\r", text, fixed = TRUE)
	if (any(grepl("[\x01-\x1f\x7f]", text, perl = TRUE)))
		for (code in c(1:31, 127))
			text <- gsub(rawToChar(as.raw(code)), sprintf("\\u%04x", code), text, fixed = TRUE)
	paste0("\"", text, "\"")
}

json_list <- function(text) paste0("[", paste(json_text(text), collapse = ","), "]")

# An object of values that are JSON already.
json_object <- function(names, values) paste0("{", paste0(json_text(names), ":", values, collapse = ","), "}")

# R has no base64 of its own.
base64 <- function(data) {
	letters <- utf8ToInt("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
	missing <- (3L - length(data) %% 3L) %% 3L
	bytes <- matrix(as.integer(c(data, raw(missing))), nrow = 3L)
	sixes <- rbind(
		bytes[1L, ] %/% 4L,
		bytes[1L, ] %% 4L * 16L + bytes[2L, ] %/% 16L,
		bytes[2L, ] %% 16L * 4L + bytes[3L, ] %/% 64L,
		bytes[3L, ] %% 64L)
	text <- letters[sixes + 1L]
	if (missing > 0L)
		text[length(text) + 1L - seq_len(missing)] <- utf8ToInt("=")
	rawToChar(as.raw(text))
}
