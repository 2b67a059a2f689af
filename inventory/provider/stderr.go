package provider

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
)

// Limits of the log lines of one call; maxLine is in bytes.
const (
	maxLine  = 4 << 10
	maxLines = 1000
)

// stderrLog logs the lines of a provider's standard error. The caller must flush it at the end.
type stderrLog struct {
	log   *slog.Logger
	line  []byte // the start of the incomplete line, up to maxLine
	begun bool   // there is an incomplete line, perhaps an empty one
	count int    // lines so far
}

func (l *stderrLog) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		l.begun = true
		l.line = append(l.line, part[:min(len(part), maxLine-len(l.line))]...)
		if ended {
			l.flush()
		}
		b = rest
	}
	return n, nil
}

// flush logs the incomplete line, if there is one.
func (l *stderrLog) flush() {
	if !l.begun {
		return
	}
	level, text := levelOf(clean(string(l.line), maxLine))
	l.line, l.begun = l.line[:0], false
	switch l.count++; {
	case l.count <= maxLines:
		l.log.Log(context.Background(), level, text)
	case l.count == maxLines+1:
		l.log.Warn("wrote too many lines to standard error; the rest is dropped")
	}
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// levelOf returns the level at the beginning of a line, and the rest of the line. Without a
// known level it returns warning.
func levelOf(line string) (slog.Level, string) {
	word, text, ok := strings.Cut(line, ":")
	level, known := levels[strings.ToLower(word)]
	if !ok || !known {
		return slog.LevelWarn, line
	}
	return level, strings.TrimSpace(text)
}
