package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// maxLines is how many lines per second of the gateway's output are logged.
const maxLines = 50

// logLine logs a line of the gateway's standard error: a JSON record, or a line of a
// panic.
func (k *Manager) logLine(line []byte) {
	var record map[string]any
	if json.Unmarshal(line, &record) != nil {
		k.options.Log.Error("gateway: " + string(line))
		return
	}
	var level slog.Level
	text, _ := record[slog.LevelKey].(string)
	if level.UnmarshalText([]byte(text)) != nil {
		level = slog.LevelInfo
	}
	message, _ := record[slog.MessageKey].(string)
	delete(record, slog.LevelKey)
	delete(record, slog.MessageKey)
	delete(record, slog.TimeKey)
	var attrs []any
	for _, name := range slices.Sorted(maps.Keys(record)) {
		attrs = append(attrs, name, record[name])
	}
	k.options.Log.Log(context.Background(), level, "gateway: "+message, attrs...)
}

// rateLimit limits how often an event is logged, because users can cause failures at any
// rate. The zero value is ready.
type rateLimit struct {
	mu   sync.Mutex
	last time.Time
}

// allow reports true at most once a second.
func (s *rateLimit) allow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < time.Second {
		return false
	}
	s.last = time.Now()
	return true
}

// stderrLog writes lines that the Manager passes to logLine.
func stderrLog() *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, nil))
}
