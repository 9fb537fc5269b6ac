"""Replay a recorded run under other shares, to predict the effect of scheduler rules."""

from iqcar.replay.effect import Prediction as Prediction
from iqcar.replay.effect import predict as predict
from iqcar.replay.expected import Expected as Expected
from iqcar.replay.run import Recording as Recording
from iqcar.replay.run import Replayed as Replayed
from iqcar.replay.run import record as record
from iqcar.replay.run import replay as replay
from iqcar.replay.run import replay_errors as replay_errors
