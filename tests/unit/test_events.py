"""Events are counted one way: added up on their way to the algorithm, never twice."""

import pickle

from rllib_geoffpac.lanes.events import EVALUATION_EVENTS, EventCounts


def test_events_that_did_not_happen_are_reported_as_none():
    assert dict(EventCounts(EVALUATION_EVENTS)) == dict.fromkeys(EVALUATION_EVENTS, 0)


def test_counts_that_were_taken_are_not_counted_again():
    lane, total = EventCounts(), EventCounts(EVALUATION_EVENTS)
    for failures in (2, 0, 1):
        lane["env_failures"] += failures
        total.update(lane.take())
    assert total["env_failures"] == 3
    assert total["env_runners_lost"] == 0


def test_counts_survive_the_way_from_an_env_runner():
    events = EventCounts(EVALUATION_EVENTS, {"env_runners_hung": 4})
    arrived = pickle.loads(pickle.dumps(events))
    assert type(arrived) is EventCounts
    assert arrived == events
    assert dict(arrived) == dict(events)
