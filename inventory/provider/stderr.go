package provider

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
)

// Bounds on what one call may log.
const (
	maxLine  = 4 << 10
	maxLines = 1000
)

// lines turns standard error into log events, one a line.
type lines struct {
	log   *slog.Logger
	line  []byte // the beginning of the line that has not ended, up to maxLine
	begun bool
	count int
}

func (l *lines) Write(b []byte) (int, error) {
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

// flush logs the line so far.
func (l *lines) flush() {
	if !l.begun {
		return
	}
	level, text := levelOf(clean(string(l.line), maxLine))
	l.line, l.begun = l.line[:0], false
	switch l.count++; {
	case l.count <= maxLines:
		l.log.Log(context.Background(), level, text)
	case l.count == maxLines+1:
		l.log.Warn("wrote more lines to standard error than are kept")
	}
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// levelOf splits "LEVEL: text"; without a known level the line is a warning.
func levelOf(line string) (slog.Level, string) {
	word, text, ok := strings.Cut(line, ":")
	level, known := levels[strings.ToLower(word)]
	if !ok || !known {
		return slog.LevelWarn, line
	}
	return level, strings.TrimSpace(text)
}
