// Package fetch is the only way to the network: it knows how to request one URL politely, safely and within bounds, or
// to send a message there. It refuses to know what the bytes mean, where they go and whether they were wanted.
package fetch
