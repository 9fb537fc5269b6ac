"""Replay a recorded run under other shares, to predict the effect of scheduler rules."""

from iqcar.replay.loop.run import Recording as Recording
from iqcar.replay.loop.run import Replayed as Replayed
from iqcar.replay.loop.run import record as record
from iqcar.replay.loop.run import replay as replay
from iqcar.replay.loop.run import replay_errors as replay_errors
from iqcar.replay.rule_effect.effect import Prediction as Prediction
from iqcar.replay.rule_effect.effect import predict as predict
from iqcar.replay.rule_effect.expected import Expected as Expected
