"""The console: a web page over any broker, ours or Apache Kafka, that shows what waits, who holds
what, and what failed, and acts on it where it may.

It is a client of the broker, and keeps nothing but the last minutes of what it has seen. Each page
has a JSON twin under ``/api/v1``, which the page itself reads.

Read in this order: `queue_views` and `record_views` (what is asked, as JSON), `causes` (why a queue
stands still), `acts` (what can be changed), `rates` (the history behind the sparklines), `watches`
(one look for all who watch), `guard` (whose requests are answered, and with which headers), `site`
(the addresses), `serving` (the server), and ``static`` (the page: one HTML file, one script, one
style sheet).
"""
