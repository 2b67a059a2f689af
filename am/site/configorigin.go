package site

import (
	"fmt"
	"regexp"
	"strings"
)

// EnvPrefix begins the names of the environment variables that set keys.
const EnvPrefix = "PATCHBAY_"

// origin records the places of a configuration's values, for messages. A place is a line of the
// file or an environment variable.
type origin struct {
	File      string
	lines     map[string]int  // the line of each key in the file; keys[0].key is in the first entry of a list
	variables map[string]bool // the keys whose value is from the environment
}

// ConfigError is one mistake in a configuration. The field Where is the place of the mistake, and
// Msg includes the remedy.
type ConfigError struct{ Where, Key, Msg string }

func (e *ConfigError) Error() string {
	if e.Key == "" {
		return e.Where + ": " + e.Msg
	}
	return e.Where + ": " + e.Key + ": " + e.Msg
}

// Where returns the place of a key's value: the environment variable, or the file and line.
func (o origin) Where(key string) string {
	if o.variables[key] {
		return "environment " + envName(key)
	}
	for k := key; k != ""; k = parentKey(k) {
		if line := o.lines[k]; line > 0 {
			return fmt.Sprintf("%s:%d", o.File, line)
		}
	}
	return o.File
}

func (o origin) has(key string) bool {
	return o.variables[key] || o.lines[key] > 0
}

// parentKey returns "" for a key outside of sections and lists.
func parentKey(key string) string {
	return key[:max(0, strings.LastIndexAny(key, ".["))]
}

var index = regexp.MustCompile(`\[\d+\]`)

// withoutIndexes returns the key as the file has it, without the numbers of entries.
func withoutIndexes(key string) string { return index.ReplaceAllString(key, "") }

func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func (o origin) errorf(key, format string, args ...any) error {
	return &ConfigError{o.Where(key), withoutIndexes(key), fmt.Sprintf(format, args...)}
}
