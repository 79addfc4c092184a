package config

// ValidName reports whether a Source may be called so.
func ValidName(name string) bool { return sourceName(name) == nil }
