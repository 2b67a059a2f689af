package site

import (
	"fmt"
	"log/slog"
	"strings"
)

// EnvPrefix begins the names of the environment variables that set keys.
const EnvPrefix = "PATCHBAY_"

// origin records the places of a configuration's values, for messages. A place is a line of the
// file or an environment variable.
type origin struct {
	File      string
	lines     map[string]int // the line of each key in the file
	variables map[string]string

	warnings *[]*ConfigError // see Config.Warnings
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
	if o.variables[key] != "" {
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
	return o.variables[key] != "" || o.lines[key] > 0
}

// parentKey returns "" for a key outside of sections.
func parentKey(key string) string {
	return key[:max(0, strings.LastIndexByte(key, '.'))]
}

func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// settingVariables returns, by key, the values of environment variables. Keys in lists have no
// variables.
func settingVariables(environ []string) map[string]string {
	values := make(map[string]string)
	for _, s := range settings(&Config{}) {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, envName(s.key)+"="); ok {
				values[s.key] = value
			}
		}
	}
	return values
}

// warn records a warning about a key of an earlier release.
func (o origin) warn(where, format string, args ...any) {
	*o.warnings = append(*o.warnings, &ConfigError{Where: where, Msg: fmt.Sprintf(format, args...)})
}

// Warnings returns a warning for each key or variable that this release ignores, or accepts under
// an old name.
func (c *Config) Warnings() []*ConfigError {
	if c.Origin.warnings == nil {
		return nil // the configuration was not read from a file
	}
	return *c.Origin.warnings
}

// LogWarnings logs the warnings.
func (c *Config) LogWarnings(log *slog.Logger) {
	for _, w := range c.Warnings() {
		log.Warn("configuration", "remark", w.Error())
	}
}

func (o origin) errorf(key, format string, args ...any) error {
	return &ConfigError{o.Where(key), key, fmt.Sprintf(format, args...)}
}
