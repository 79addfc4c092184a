// Package fetch is the only way to the network: it knows how to request one URL politely, safely
// and within bounds, or to send a message there. It refuses to know what the bytes mean, where they
// go and whether they were wanted.
//
// Every rule about peers lives here, so that no caller can forget one: which addresses may be
// dialled (P7, F26), which redirects are followed (F60), where credentials go (P10), how long a
// peer may take (F54), how much it may send (F56), how often it is asked (F53, F78), and what kind
// of failure an error is (Kind). Get returns an *Error for anything but a usable answer; Send takes
// any status as an answer.
package fetch
