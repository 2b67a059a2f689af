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

// maxLines is how many lines a second of the gateway's are logged.
const maxLines = 50

// retell logs a line that the gateway writes to its standard error: a JSON
// record, or a line of a panic.
func (k *Manager) retell(line []byte) {
	var record map[string]any
	if json.Unmarshal(line, &record) != nil {
		k.o.Log.Error("gateway: " + string(line))
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
	k.o.Log.Log(context.Background(), level, "gateway: "+message, attrs...)
}

// seldom is true once a second: how often something fails is up to users. The
// zero value is ready.
type seldom struct {
	mu   sync.Mutex
	last time.Time
}

func (s *seldom) may() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < time.Second {
		return false
	}
	s.last = time.Now()
	return true
}

// stderrLog is the gateway's own log, which the Manager retells.
func stderrLog() *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, nil))
}
